/* faulty_vfs: an SQLite VFS over the default one in which the Nth write, truncate or fsync fails, for torture runs. */
#ifndef BELAY_TESTS_FAULTY_VFS_H
#define BELAY_TESTS_FAULTY_VFS_H

#include <sqlite3.h>
#include <stdbool.h>
#include <string.h>

enum fault {
    FAULT_ONCE,  /* that one operation fails (EIO), later ones work */
    FAULT_SHORT, /* that one write leaves half of its bytes, then everything fails: the disk died */
    FAULT_FULL,  /* from there on everything says "disk full" */
    FAULT_KINDS
};

static struct {
    long at, count; /* operation number that fails, 0 = none; operations so far */
    enum fault kind;
    bool hit;
} faulty;

struct faulty_file {
    sqlite3_file base;
    sqlite3_file *real; /* right behind this struct */
};

static sqlite3_vfs *faulty_real_vfs;

static sqlite3_file *faulty_real(sqlite3_file *f)
{
    return ((struct faulty_file *)f)->real;
}

/* Is this operation to fail? */
static bool faulty_now(void)
{
    if (faulty.at == 0)
        return false;
    faulty.count++;
    bool fails = faulty.kind == FAULT_ONCE ? faulty.count == faulty.at : faulty.count >= faulty.at;
    faulty.hit = faulty.hit || fails;
    return fails;
}

static int faulty_write(sqlite3_file *f, const void *data, int n, sqlite3_int64 at)
{
    sqlite3_file *real = faulty_real(f);
    if (!faulty_now())
        return real->pMethods->xWrite(real, data, n, at);
    if (faulty.kind == FAULT_SHORT && faulty.count == faulty.at)
        (void)real->pMethods->xWrite(real, data, n / 2, at);
    return faulty.kind == FAULT_FULL ? SQLITE_FULL : SQLITE_IOERR_WRITE;
}

static int faulty_truncate(sqlite3_file *f, sqlite3_int64 size)
{
    return faulty_now() ? SQLITE_IOERR_TRUNCATE : faulty_real(f)->pMethods->xTruncate(faulty_real(f), size);
}

static int faulty_sync(sqlite3_file *f, int flags)
{
    return faulty_now() ? SQLITE_IOERR_FSYNC : faulty_real(f)->pMethods->xSync(faulty_real(f), flags);
}

static int faulty_close(sqlite3_file *f)
{
    return faulty_real(f)->pMethods->xClose(faulty_real(f));
}

static int faulty_read(sqlite3_file *f, void *data, int n, sqlite3_int64 at)
{
    return faulty_real(f)->pMethods->xRead(faulty_real(f), data, n, at);
}

static int faulty_size(sqlite3_file *f, sqlite3_int64 *size)
{
    return faulty_real(f)->pMethods->xFileSize(faulty_real(f), size);
}

static int faulty_lock(sqlite3_file *f, int kind)
{
    return faulty_real(f)->pMethods->xLock(faulty_real(f), kind);
}

static int faulty_unlock(sqlite3_file *f, int kind)
{
    return faulty_real(f)->pMethods->xUnlock(faulty_real(f), kind);
}

static int faulty_reserved(sqlite3_file *f, int *out)
{
    return faulty_real(f)->pMethods->xCheckReservedLock(faulty_real(f), out);
}

static int faulty_control(sqlite3_file *f, int op, void *arg)
{
    return faulty_real(f)->pMethods->xFileControl(faulty_real(f), op, arg);
}

static int faulty_sector(sqlite3_file *f)
{
    return faulty_real(f)->pMethods->xSectorSize(faulty_real(f));
}

static int faulty_device(sqlite3_file *f)
{
    return faulty_real(f)->pMethods->xDeviceCharacteristics(faulty_real(f));
}

static int faulty_shm_map(sqlite3_file *f, int page, int size, int extend, void volatile **out)
{
    return faulty_real(f)->pMethods->xShmMap(faulty_real(f), page, size, extend, out);
}

static int faulty_shm_lock(sqlite3_file *f, int offset, int n, int flags)
{
    return faulty_real(f)->pMethods->xShmLock(faulty_real(f), offset, n, flags);
}

static void faulty_shm_barrier(sqlite3_file *f)
{
    faulty_real(f)->pMethods->xShmBarrier(faulty_real(f));
}

static int faulty_shm_unmap(sqlite3_file *f, int remove)
{
    return faulty_real(f)->pMethods->xShmUnmap(faulty_real(f), remove);
}

static const sqlite3_io_methods faulty_methods = {.iVersion = 2,
                                                  .xClose = faulty_close,
                                                  .xRead = faulty_read,
                                                  .xWrite = faulty_write,
                                                  .xTruncate = faulty_truncate,
                                                  .xSync = faulty_sync,
                                                  .xFileSize = faulty_size,
                                                  .xLock = faulty_lock,
                                                  .xUnlock = faulty_unlock,
                                                  .xCheckReservedLock = faulty_reserved,
                                                  .xFileControl = faulty_control,
                                                  .xSectorSize = faulty_sector,
                                                  .xDeviceCharacteristics = faulty_device,
                                                  .xShmMap = faulty_shm_map,
                                                  .xShmLock = faulty_shm_lock,
                                                  .xShmBarrier = faulty_shm_barrier,
                                                  .xShmUnmap = faulty_shm_unmap};

static int faulty_open(sqlite3_vfs *vfs, const char *name, sqlite3_file *f, int flags, int *out)
{
    struct faulty_file *file = (struct faulty_file *)f;
    (void)vfs;
    file->real = (sqlite3_file *)(file + 1);
    int rc = faulty_real_vfs->xOpen(faulty_real_vfs, name, file->real, flags, out);
    file->base.pMethods = rc == SQLITE_OK ? &faulty_methods : NULL;
    return rc;
}

/* Makes it the default VFS of this process. */
static int faulty_install(void)
{
    static sqlite3_vfs vfs;
    faulty_real_vfs = sqlite3_vfs_find(NULL);
    vfs =
        *faulty_real_vfs; /* everything but xOpen goes straight to the real one, which looks at its own pAppData */
    vfs.zName = "faulty";
    vfs.szOsFile = (int)sizeof(struct faulty_file) + faulty_real_vfs->szOsFile;
    vfs.xOpen = faulty_open;
    return sqlite3_vfs_register(&vfs, 1);
}

#endif
