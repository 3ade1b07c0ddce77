/*
 * compat.h
 *		What differs between PostgreSQL 15, 16, 17 and 18.  The only file that
 *		looks at PG_VERSION_NUM; each shim names the version that changed.
 */
#ifndef HARMONIA_COMPAT_H
#define HARMONIA_COMPAT_H

#if PG_VERSION_NUM < 150000 || PG_VERSION_NUM >= 190000
#error "harmonia supports PostgreSQL 15 to 18"
#endif

#endif							/* HARMONIA_COMPAT_H */
