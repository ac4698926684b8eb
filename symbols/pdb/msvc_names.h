#pragma once

/*
 * Names of Microsoft's compiler for people. Its own names of anonymous namespaces have a hash of
 * the source's path, which differs from build to build. Public symbols are decorated.
 *
 *     net::?A0x26b469a4::open     net::`anonymous namespace'::open
 *     ?insert@Map@store@@QEAAXH@Z store::Map::insert
 *     ??1Cache@@QEAA@XZ           Cache::~Cache
 *
 * Scheme of decorated names: LLVM's MicrosoftDemangle.cpp. Parameters are left out, as in names of
 * procedure symbols. Names with template arguments or local scopes are not decoded.
 */

#include <stdbool.h>

#include "base/buf.h"

/* Appends the name. False, with nothing appended: the name is to be used as it is. */
bool msvc_name(const char *name, struct buf *out);
