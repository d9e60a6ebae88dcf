import { quote } from '@gantry/core/internal/ids/quote'
import type { ThreadJob, ThreadResult } from '../channel/messages.ts'
import type { Outlet } from '../channel/outlet.ts'
import { BinaryError } from '../guest/binary.ts'
import { createRandom } from '../guest/random.ts'
import { pageBytes, type WasmMemory, type WasmModule, webAssembly } from '../guest/web-assembly.ts'
import { collect, createWorkspace, layOut, WorkspaceError } from '../guest/workspace.ts'
import { baseCalls, createModuleClock } from './base-calls.ts'
import { capModule } from './cap-module.ts'
import { fileCalls, pathCalls } from './file-calls.ts'
import {
  type Calls,
  createDescriptors,
  createGuestMemory,
  errno,
  ModuleEnd,
  WasiError,
  workspaceErrno,
} from './program.ts'

export type ModuleJob = ThreadJob & { readonly program: { readonly kind: 'wasi' } }

const wasi = 'wasi_snapshot_preview1'
/** As a system says of a program that aborts. */
const trapCode = 134

interface State {
  memory?: WasmMemory
  /** Set once the program has ended; a module that catches what was thrown through it is thrown at again. */
  end?: ModuleEnd
}

/** Runs a WASI module from its start to its end. The owner of the thread kills it when the module does not end. */
export function runModule(job: ModuleJob, outlet: Outlet): ThreadResult {
  const startedCpu = process.threadCpuUsage()
  const workspace = createWorkspace(job.limits.diskBytes, () => job.deterministic?.nowMs ?? Date.now())
  const state: State = {}
  const memory = createGuestMemory(() => {
    if (state.memory === undefined) throw new WasiError(errno.fault)
    return state.memory
  })
  layOut(workspace, job.files)
  const program = {
    memory,
    descriptors: createDescriptors(workspace.root),
    workspace,
    clock: createModuleClock(job.deterministic),
    outlet,
    stdin: job.stdin,
    argv: job.program.argv,
    env: Object.entries(job.env).map(([name, value]) => `${name}=${value}`),
    random: createRandom(job.deterministic?.seed),
  }
  const end = runToEnd(job, { ...baseCalls(program), ...fileCalls(program), ...pathCalls(program) }, state, outlet)
  const { user, system } = process.threadCpuUsage(startedCpu)
  const memoryPeakBytes = state.memory?.buffer.byteLength ?? 0
  const full = memoryPeakBytes + pageBytes > job.limits.memoryBytes ? 'memoryBytes' : undefined
  const failed = end.exitCode !== 0
  return {
    exitCode: end.exitCode,
    hit: end.hit ?? (failed ? (full ?? (workspace.full ? 'diskBytes' : undefined)) : undefined),
    totals: outlet.totals,
    ...collect(workspace, job.collect),
    cpuMs: (user + system) / 1_000,
    memoryPeakBytes,
    spent: false,
  }
}

/** Compiles, links and starts the module; every way in which that can end is an end of the program. */
function runToEnd({ program, limits }: ModuleJob, calls: Calls, state: State, outlet: Outlet): ModuleEnd {
  try {
    const module = new webAssembly.Module(capModule(program.module, limits.memoryBytes))
    const { exports } = new webAssembly.Instance(module, { [wasi]: linked(module, calls, state) })
    const { memory, _start: start } = exports
    if (memory instanceof webAssembly.Memory) state.memory = memory
    if (typeof start !== 'function') throw new BinaryError('the module exports no function _start')
    start()
    return state.end ?? new ModuleEnd(0)
  } catch (error) {
    if (state.end !== undefined) return state.end
    const isRefused = error instanceof BinaryError || nameOf(error) === 'CompileError' || nameOf(error) === 'LinkError'
    const said = error instanceof Error ? error.message : String(error)
    outlet.write('stderr', Buffer.from(`${isRefused ? 'gantry: the module cannot be run: ' : 'wasm trap: '}${said}\n`))
    return new ModuleEnd(isRefused ? 1 : trapCode)
  }
}

/** Functions for everything that the module imports; what WASI has and this has not says so when it is called. */
function linked(module: WasmModule, calls: Calls, state: State): { readonly [name: string]: unknown } {
  const imports = webAssembly.Module.imports(module)
  const foreign = imports.find(({ module: from }) => from !== wasi)
  if (foreign !== undefined)
    throw new BinaryError(`it imports from ${quote(foreign.module)}, and there is only ${wasi}`)
  const functionFor = (name: string): unknown =>
    Object.hasOwn(calls, name) ? guarded(calls[name], state) : unknownCall
  return Object.fromEntries(imports.map(({ name }) => [name, functionFor(name)]))
}

const unknownCall = (): number => errno.nosys

function guarded(call: Calls[string] | undefined, state: State): (...values: never[]) => number {
  return (...values) => {
    if (state.end !== undefined) throw state.end
    try {
      return call?.(...values) ?? errno.success
    } catch (error) {
      if (error instanceof WasiError) return error.errno
      if (error instanceof WorkspaceError) return workspaceErrno[error.code]
      if (error instanceof ModuleEnd) state.end = error
      throw error
    }
  }
}

function nameOf(error: unknown): string {
  return error instanceof Error ? error.name : ''
}
