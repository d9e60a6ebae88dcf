import { Buffer } from 'node:buffer'
import { readFileSync } from 'node:fs'
import { createDisk } from './disk.ts'
import { fromHost } from './frames.ts'
import { inPieces } from './genuine.ts'
import { guestSource } from './guest.ts'
import { type HostNode, takeNode } from './host-node.ts'
import { restorePyodide, startPyodide } from './load.ts'
import { capMemory } from './memory-cap.ts'
import { createService } from './service.ts'
import { becomeShell, closeShell } from './shell.ts'

/**
 * The process in which a Python program runs: `node host.mjs <folder of pyodide> <snapshot>` becomes an interpreter, says
 * `ready` and waits for its job on descriptor 3; `node host.mjs <folder of pyodide> --make <folder of drivers>` sends the
 * memory of one. What it knows of Node it holds in closures; to the program there is only Python.
 *
 * The driver leads: it reads its job from a device, which is where the host waits for one, writes its value there, and its
 * exit comes back here as something thrown.
 */
async function main(): Promise<never> {
  const [, , folder = '', snapshot = '', drivers = ''] = process.argv
  const node = takeNode()
  try {
    const sources = snapshot === '--make' ? driverFiles.map((name) => readFileSync(drivers + name)) : []
    const shell = becomeShell(folder, node.complain)
    const cap = capMemory()
    if (snapshot === '--make') return await make(node, folder, sources)
    const pyodide = await restorePyodide(folder, snapshot)
    closeShell()
    const service = createService({ node, shell, cap, pyodide, disk: createDisk(pyodide.FS) })
    service.install()
    return service.end(exitCodeOf(node, () => pyodide.runPython(enter)))
  } catch (error) {
    node.complain(error instanceof Error ? `${error.name}: ${error.message}` : String(error))
    return node.exit(1)
  }
}

const driverFiles = ['python.py', 'python_channel.py', 'python_json.py', 'python_returns.py', 'python_still.py']
const enter = "import sys; guest = sys.modules['gantry_guest']; guest.enter(guest.code)"
/** As a system says of a program that aborts. */
const fatalCode = 134

/** Runs Python until it ends, by its exit or because it fell. */
function exitCodeOf(node: HostNode, run: () => void): number {
  try {
    run()
    return 0
  } catch (error) {
    const { status } = error as { status?: unknown }
    if (typeof status === 'number') return status
    node.send(fromHost.stderr, Buffer.from(`Fatal Python error: ${String(error).slice(0, 4_096)}\n`))
    return fatalCode
  }
}

/** Makes an interpreter with the driver in it, and sends its memory. */
async function make(node: HostNode, folder: string, sources: readonly Uint8Array[]): Promise<never> {
  const pyodide = await startPyodide(folder)
  pyodide.FS.mkdirTree('/gantry/drivers')
  for (const [index, source] of sources.entries()) {
    pyodide.FS.writeFile(`/gantry/drivers/${driverFiles[index]}`, source)
  }
  pyodide.FS.writeFile('/gantry/guest.py', Buffer.from(guestSource))
  pyodide.runPython(build)
  inPieces(pyodide.makeMemorySnapshot(), (piece) => node.send(fromHost.snapshot, piece))
  node.send(fromHost.end)
  return node.exit(0)
}

const build = `
import gc, sys, types
sys.path.insert(0, '/gantry/drivers')
guest = types.ModuleType('gantry_guest')
with open('/gantry/guest.py') as file:
    exec(compile(file.read(), '/gantry/guest.py', 'exec'), guest.__dict__)
with open('/gantry/drivers/python.py') as file:
    guest.code = compile(file.read(), '/gantry/drivers/python.py', 'exec')
sys.modules['gantry_guest'] = guest
sys.path.remove('/gantry/drivers')
del guest, file
gc.collect()
gc.freeze()
`

await main()
