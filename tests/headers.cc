// SPDX-License-Identifier: Apache-2.0
//
// The source of the target that owns the precompiled headers of the tests (tests/CMakeLists.txt).
