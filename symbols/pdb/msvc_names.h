#pragma once

/*
 * Names of Microsoft's compiler for people. Its own names of anonymous namespaces have a hash of
 * the source's path, which differs from build to build. Public symbols are decorated.
 *
 *     net::?A0x26b469a4::open     net::`anonymous namespace'::open
 *     ?insert@Map@store@@QEAAXH@Z store::Map::insert
 *     ??1Cache@@QEAA@XZ           Cache::~Cache
 *
 *     ??$get@H@store@@YAHXZ       store::get<int>
 *     ??R<lambda_1>@?0??f@@YAXXZ@QEBA@XZ
 *                                 `f'::`1'::<lambda_1>::operator()
 *
 * Scheme of decorated names: LLVM's MicrosoftDemangle.cpp. They are written as Microsoft's compiler
 * writes names of procedure symbols: without parameters, and `std::pair<int const ,A<B> >`.
 */

#include <stdbool.h>

#include "base/buf.h"

#define MSVC_NAME_MAX ((size_t)1 << 16) /* longer results are refused */

/* Appends the name. False, with nothing appended: the name is to be used as it is. */
bool msvc_name(const char *name, struct buf *out);
