import { closeSync, existsSync, fsyncSync, mkdirSync, openSync, readdirSync, renameSync, rmSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { parentPort, workerData } from 'node:worker_threads'
import { PGlite } from '@electric-sql/pglite'
import { NodeFS } from '@electric-sql/pglite/nodefs'

/**
 * The thread of an embedded database: takes PostgreSQL's protocol, as much of it as was written at once, and gives back
 * what the engine answers. At `close` it ends the engine in order.
 */
const { folder } = workerData as { readonly folder: string }
const port = parentPort
if (port === null) throw new Error('This file is run as a thread.')

/** Files that reach the disk when the engine says so; by itself the engine leaves that to the system. */
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
          // What the disk refused is not known to be there; a new thread finds out from the log what is.
          return process.exit(1)
        }
      }
    }
    return { emscriptenOpts: { ...made.emscriptenOpts, preRun: [...preRun, useSync] } }
  }
}

const settings = [
  ...['search_path=gantry', 'enable_seqscan=off', 'plan_cache_mode=force_generic_plan', 'fsync=on'],
  ...['wal_sync_method=fsync', 'max_wal_size=64MB', 'min_wal_size=32MB'],
]
const startParams = [
  ...PGlite.defaultStartParams.filter((flag) => flag !== '-F'),
  ...settings.flatMap((setting) => ['-c', setting]),
]

/** Made aside and renamed, so that nobody ever finds half of a new database. */
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
  // What the engine hands over is its own memory, which it uses again.
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
