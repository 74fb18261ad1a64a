#!/usr/bin/env bash
# Proves the README's commands on a system that has nothing: debootstraps a minimal Debian 12 into a folder, clones this
# repository's HEAD into it, and runs the commands there. Needs root and debootstrap; uses this host's package mirror,
# certificates, and pip and apt settings.
#
#   tools/bare_root.sh DIR                    ./dev run and ./dev test, each timed
#   tools/bare_root.sh DIR './dev run "Hi."'  these commands instead
#
# An existing DIR is used again, so that a second run shows how quick the commands are when the set-up is there.
set -euo pipefail
[ $# -ge 1 ] || { sed -n '2,10p' "$0"; exit 2; }
root=$(mkdir -p "$1" && cd "$1" && pwd)
shift
[ $# -gt 0 ] || set -- './dev run' './dev test'
repository=$(cd "$(dirname "$0")/.." && pwd)

if [ ! -x "$root/usr/bin/apt-get" ]; then
  mirror=$(apt-get indextargets --format '$(REPO_URI)' 2>/dev/null | head -n 1)
  debootstrap --variant=minbase bookworm "$root" "${mirror:-http://deb.debian.org/debian}" >"$root.debootstrap.log" 2>&1 ||
    { tail -n 20 "$root.debootstrap.log"; exit 1; }
  rm -f "$root.debootstrap.log"
fi

# The host's way to its mirrors: certificates, apt's and pip's settings, name resolution.
# The bundle gets a place of its own, which no package overwrites.
bundle=/etc/host-certificates.crt
mkdir -p "$root/etc/apt/sources.list.d" "$root/etc/apt/apt.conf.d"
cp /etc/ssl/certs/ca-certificates.crt "$root$bundle"
[ ! -f "$root/etc/apt/sources.list" ] || : >"$root/etc/apt/sources.list"
for file in /etc/resolv.conf /etc/apt/sources.list.d/debian.sources; do
  [ ! -f "$file" ] || cp "$file" "$root$file"
done
grep -lisE 'proxy|cainfo' /etc/apt/apt.conf.d/* 2>/dev/null | xargs -r cp -t "$root/etc/apt/apt.conf.d" || true

mounted=()
cleanup() { for point in "${mounted[@]}"; do umount -l "$root/$point" || true; done; }
trap cleanup EXIT
mount -t proc proc "$root/proc" && mounted=(proc)
mount --rbind /dev "$root/dev" && mount --make-rslave "$root/dev" && mounted=(dev "${mounted[@]}")
mount --rbind /sys "$root/sys" && mount --make-rslave "$root/sys" && mounted=(sys "${mounted[@]}")

rm -rf "$root/root/lathe.new"
git clone -q --no-local "$repository" "$root/root/lathe.new"
if [ -d "$root/root/lathe" ]; then
  # Keep the build and the virtual environment of an earlier run.
  for kept in build .venv; do [ -d "$root/root/lathe/$kept" ] && mv "$root/root/lathe/$kept" "$root/root/lathe.new/"; done
  rm -rf "$root/root/lathe"
fi
mv "$root/root/lathe.new" "$root/root/lathe"

for command in "$@"; do
  start=$SECONDS
  printf '\n$ %s\n' "$command"
  env -i HOME=/root TERM="${TERM:-dumb}" PATH=/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8 DEBIAN_FRONTEND=noninteractive \
    PIP_CERT=$bundle http_proxy="${http_proxy:-}" https_proxy="${https_proxy:-}" \
    chroot "$root" bash -c "cd /root/lathe && $command"
  echo "took $((SECONDS - start)) s"
done
