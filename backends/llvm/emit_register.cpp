#include <llvm/IR/Constants.h>

#include "backends/llvm/emitter.h"
#include "ir/error.h"

/// Register buffers: each slot (kernel_info.h) is one SSA value; a store makes a new one.
namespace lathe::codegen {

namespace {

/// The lanes of an access that fall into one slot: pairs of (lane of the access, place in the slot).
struct Piece {
  int slot;
  std::vector<std::pair<int, int>> lanes;
};

/// A scalar index under a vector mask applies to each of the access's lanes.
std::vector<Piece> pieces_of(const KernelInfo& info, const BufferNode* buffer, const Expr& index, int access_lanes) {
  std::vector<Piece> pieces;
  const auto constants = constant_lanes(index);
  LATHE_CHECK(constants, "an index into registers is constant");
  std::vector<std::int64_t> elements = *constants;
  if (elements.size() == 1) elements.resize(static_cast<size_t>(access_lanes), elements[0]);
  for (size_t lane = 0; lane < elements.size(); ++lane) {
    const int slot = info.slot_of(buffer, elements[lane]);
    auto found = std::find_if(pieces.begin(), pieces.end(), [&](const Piece& piece) { return piece.slot == slot; });
    if (found == pieces.end()) found = pieces.insert(pieces.end(), Piece{slot, {}});
    found->lanes.emplace_back(static_cast<int>(lane), static_cast<int>(elements[lane] - info.slots()[slot].first));
  }
  return pieces;
}

bool is_whole(const Piece& piece, int slot_lanes, int access_lanes) {
  if (static_cast<int>(piece.lanes.size()) != slot_lanes || slot_lanes != access_lanes) return false;
  for (auto [lane, place] : piece.lanes)
    if (lane != place) return false;
  return true;
}

/// Do no two lanes meet in one place of the slot?
bool has_places_of_its_own(const Piece& piece, int slot_lanes) {
  std::vector<bool> taken(static_cast<size_t>(slot_lanes));
  for (auto [lane, place] : piece.lanes) {
    if (taken[static_cast<size_t>(place)]) return false;
    taken[static_cast<size_t>(place)] = true;
  }
  return true;
}

}  // namespace

llvm::Value* FunctionEmitter::emit_register_load(const Load* node) {
  const int lanes = node->dtype.lanes;
  llvm::Type* type = value_type(context, node->dtype);
  llvm::Value* result = llvm::PoisonValue::get(type);
  for (const Piece& piece : pieces_of(kernel.info, node->buffer.get(), node->indices[0], lanes)) {
    const int slot_lanes = kernel.info.slots()[piece.slot].lanes;
    llvm::Value* slot = slots_[piece.slot];
    if (!slot)
      throw Refusal(
          "emit", 3,
          "register buffer " + node->buffer->name + " is read outside its allocation, or by a parallel loop inside it");
    if (is_whole(piece, slot_lanes, lanes)) {
      result = slot;
    } else if (slot_lanes > 1 && lanes > 1 && static_cast<int>(piece.lanes.size()) == lanes) {
      std::vector<int> order(lanes);
      for (auto [lane, place] : piece.lanes) order[lane] = place;
      result = b.CreateShuffleVector(slot, order);
    } else {
      for (auto [lane, place] : piece.lanes) {
        llvm::Value* element = slot_lanes == 1 ? slot : b.CreateExtractElement(slot, std::uint64_t(place));
        result = lanes == 1 ? element : b.CreateInsertElement(result, element, std::uint64_t(lane));
      }
    }
  }
  if (llvm::Value* mask = emit_mask(node->mask))
    result = b.CreateSelect(loaded_mask(mask), result, llvm::Constant::getNullValue(type));
  return result;
}

void FunctionEmitter::emit_register_store(const Store* node, llvm::Value* value, llvm::Value* mask) {
  const int lanes = node->value->dtype.lanes;
  for (const Piece& piece : pieces_of(kernel.info, node->buffer.get(), node->indices[0], lanes)) {
    const int slot_lanes = kernel.info.slots()[piece.slot].lanes;
    llvm::Value*& slot = slots_[piece.slot];
    if (!slot)
      throw Refusal("emit", 3,
                    "register buffer " + node->buffer->name +
                        " is stored outside its allocation, or by a parallel loop inside it");
    if (is_whole(piece, slot_lanes, lanes)) {
      slot = mask ? b.CreateSelect(loaded_mask(mask), value, slot) : value;
      continue;
    }
    if (slot_lanes > 1 && lanes > 1 && has_places_of_its_own(piece, slot_lanes)) {
      std::vector<int> spread(slot_lanes, -1), merged(slot_lanes), on(slot_lanes, lanes);
      for (int place = 0; place < slot_lanes; ++place) merged[place] = place;
      for (auto [lane, place] : piece.lanes) {
        on[place] = spread[place] = lane;
        merged[place] = slot_lanes + place;
      }
      llvm::Value* placed = b.CreateShuffleVector(value, spread);
      slot = mask ? b.CreateSelect(b.CreateShuffleVector(mask, llvm::Constant::getNullValue(mask->getType()), on),
                                   placed, slot)
                  : b.CreateShuffleVector(slot, placed, merged);
      continue;
    }
    for (auto [lane, place] : piece.lanes) {
      llvm::Value* element = lanes == 1 ? value : b.CreateExtractElement(value, std::uint64_t(lane));
      llvm::Value* old = slot_lanes == 1 ? slot : nullptr;
      if (mask) {
        if (!old) old = b.CreateExtractElement(slot, std::uint64_t(place));
        element = b.CreateSelect(lanes == 1 ? mask : b.CreateExtractElement(mask, std::uint64_t(lane)), element, old);
      }
      slot = slot_lanes == 1 ? element : b.CreateInsertElement(slot, element, std::uint64_t(place));
    }
  }
}

}  // namespace lathe::codegen
