#include "bindings/cli/cli.h"

int main(int argc, char** argv) {
  return lathe::cli_main(argc, argv);
}
