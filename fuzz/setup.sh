# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash disable=SC2034
#
# Sourced by fuzz/run, tests/run and bench/run: sets a fresh Debian 12 or Ubuntu 24.04 (or newer) up, and
# builds a preset. Idempotent: on a machine that has everything it installs nothing and asks for nothing.
#
# Exit status 4: something is missing that only root could install; the command to run is printed.

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
jobs=$(nproc)

build_packages=(
  g++ cmake ninja-build  # to build at all
  librapidcheck-dev      # generators and properties
  libhwy-dev             # SIMD, chosen at run time
  libboost-dev           # Multiprecision: the 1280-bit arbiter
  libcli11-dev nlohmann-json3-dev libdlpack-dev
  libgtest-dev libgmock-dev libbenchmark-dev
)

fuzzer_packages=(clang-19 libclang-rt-19-dev)  # fuzz/fuzzers/run alone

Say() { printf '\n== %s\n' "$*"; }

# InstallPackages WHY PACKAGE…: those of the packages that are missing, saying so first.
InstallPackages() {
  local why=$1 package missing=() as_root=()
  shift
  if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
    echo "This is neither Debian nor Ubuntu: nothing is installed. Needed are what Debian calls: $*"
    return
  fi
  for package in "$@"; do
    [[ $(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null) == installed ]] || missing+=("$package")
  done
  ((${#missing[@]})) || return 0

  Say "Installing from this machine's Debian or Ubuntu archive, $why: ${missing[*]}"
  if ((EUID != 0)); then
    if ! command -v sudo >/dev/null; then
      echo "Only root can install packages and there is no sudo here. As root, run:"
      echo "  apt-get update && apt-get install --no-install-recommends ${missing[*]}"
      exit 4
    fi
    echo "Only root can install packages: sudo may ask for your password. Nothing else here needs root."
    as_root=(sudo)
  fi
  "${as_root[@]}" apt-get update -q
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "${missing[@]}"
}

# BuildPreset PRESET [TARGET…]: configures and builds into build/PRESET.
BuildPreset() {
  local preset=$1 targets=()
  shift
  (($# == 0)) || targets=(--target "$@")
  Say "Building the $preset preset in $root/build/$preset"
  (cd "$root" && cmake --preset "$preset" && cmake --build --preset "$preset" -j "$jobs" "${targets[@]}")
}
