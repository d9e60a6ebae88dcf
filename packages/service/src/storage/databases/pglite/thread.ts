import { closeSync, existsSync, fsyncSync, mkdirSync, openSync, readdirSync, renameSync, rmSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { parentPort, workerData } from 'node:worker_threads'
import { PGlite } from '@electric-sql/pglite'
import { NodeFS } from '@electric-sql/pglite/nodefs'

/**
 * The thread of an embedded database: receives PostgreSQL wire messages and returns the engine's answers. On `close` it
 * shuts the engine down.
 */
const { folder }: { readonly folder: string } = workerData
const port = parentPort
if (port === null) throw new Error('This module must be run as a worker thread.')

/** A file system that syncs files when the engine requests it; the engine's own leaves that to the system. */
class DurableFiles extends NodeFS {
  override async init(...[engine, options]: Parameters<NodeFS['init']>): ReturnType<NodeFS['init']> {
    const made = await super.init(engine, options)
    const { preRun = [] } = made.emscriptenOpts
    const useSync = (module: { readonly NODEFS: unknown }): void => {
      const { stream_ops } = module.NODEFS as { stream_ops: { fsync?: (file: { readonly nfd: number }) => number } }
      stream_ops.fsync = ({ nfd }) => {
        try {
          fsyncSync(nfd)
          return 0
        } catch {
          // After a failed sync the state on disk is unknown; a new thread recovers from the write-ahead log.
          return process.exit(1)
        }
      }
    }
    return { emscriptenOpts: { ...made.emscriptenOpts, preRun: [...preRun, useSync] } }
  }
}

const settings = [
  'search_path=gantry',
  'enable_seqscan=off',
  'plan_cache_mode=force_generic_plan',
  'fsync=on',
  'wal_sync_method=fsync',
  'max_wal_size=64MB',
  'min_wal_size=32MB',
]
const startParams = [
  ...PGlite.defaultStartParams.filter((flag) => flag !== '-F'),
  ...settings.flatMap((setting) => ['-c', setting]),
]

/** Creates the database under another name and renames it, so that it is never incomplete. */
async function make(): Promise<void> {
  const draft = `${folder}.new`
  rmSync(draft, { recursive: true, force: true })
  mkdirSync(draft, { mode: 0o700 })
  const engine = await PGlite.create(draft)
  await engine.close()
  for (const entry of readdirSync(draft, { recursive: true, withFileTypes: true })) {
    sync(join(entry.parentPath, entry.name))
  }
  renameSync(draft, folder)
  sync(dirname(folder))
}

function sync(path: string): void {
  const file = openSync(path, 'r')
  fsyncSync(file)
  closeSync(file)
}

if (!existsSync(folder)) await make()
const engine = await PGlite.create({ fs: new DurableFiles(folder), startParams })

async function answer(bytes: Uint8Array): Promise<Uint8Array<ArrayBuffer>> {
  const chunks: Uint8Array[] = []
  // A copy, because the engine reuses its memory.
  await engine.execProtocolRawStream(bytes, { syncToFs: false, onRawData: (data) => void chunks.push(data.slice()) })
  return concat(chunks)
}

function concat(chunks: readonly Uint8Array[]): Uint8Array<ArrayBuffer> {
  const whole = new Uint8Array(chunks.reduce((sum, { length }) => sum + length, 0))
  let end = 0
  for (const chunk of chunks) {
    whole.set(chunk, end)
    end += chunk.length
  }
  return whole
}

port.on('message', async (message: Uint8Array | 'close') => {
  if (message === 'close') {
    await engine.close()
    port.close()
    return
  }
  const bytes = await answer(message)
  port.postMessage(bytes, [bytes.buffer])
})
port.postMessage('ready')
