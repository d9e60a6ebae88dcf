import { createProcessRuntime } from '@gantry/sandbox'
import { createRuntimes } from '@gantry/sandbox/internal/runtimes/create-runtimes'
import { createRuntimeServer } from '@gantry/sandbox-remote'

/** A host in a process of its own, to be killed. */
const [port = '0', id = '', key = ''] = process.argv.slice(2)
const runtimes = createRuntimes({ runtimes: [createProcessRuntime()] })
const server = await createRuntimeServer({ runtimes, keys: [{ id, key }], port: Number(port), keepMs: 5_000 })
process.stdout.write(`${server.url}\n`)
