import { createProcessRuntime } from '@gantry/sandbox'
import { createRuntimes } from '@gantry/sandbox/internal/runtimes/create-runtimes'
import { createRuntimeServer } from '@gantry/sandbox-remote'

/** The host of the part `remote`, in a process of its own; it ends with its parent. */
const [id = '', key = ''] = process.argv.slice(2)
const pool = { min: 1, max: 1, maxIdleMs: 3_600_000 }
const runtimes = createRuntimes({ runtimes: [createProcessRuntime()], pool })
const server = await createRuntimeServer({ runtimes, keys: [{ id, key }], port: 0 })
process.stdout.write(`${server.url}\n`)
process.stdin.resume().once('end', () => void server.close().then(() => runtimes.close()))
