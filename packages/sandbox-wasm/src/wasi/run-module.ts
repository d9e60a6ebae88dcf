import { quote } from '@gantry/core/internal/ids/quote'
import type { Outlet } from '../channel/guest-channel.ts'
import type { ThreadJob, ThreadResult } from '../channel/messages.ts'
import {
  BinaryError,
  type BinaryReader,
  createReader,
  encodeSection,
  encodeU32,
  type Limits,
  pageBytes,
  type Section,
  sectionIds,
  sectionsOf,
  type WasmMemory,
  type WasmModule,
  webAssembly,
} from '../guest/binary.ts'
import { createRandom } from '../guest/random.ts'
import { collect, createWorkspace, layOut, WorkspaceError } from '../guest/workspace.ts'
import { fileCalls, pathCalls } from './file-calls.ts'
import {
  type Calls,
  createDescriptors,
  createGuestMemory,
  createModuleClock,
  errno,
  ModuleEnd,
  type ModuleProgram,
  WasiError,
  workspaceErrno,
} from './program.ts'

export type ModuleJob = ThreadJob & { readonly program: { readonly kind: 'wasi' } }

const wasi = 'wasi_snapshot_preview1'
/** The exit code of a program that aborts, as on a POSIX system. */
const trapCode = 134

interface State {
  memory?: WasmMemory
  /** Set when the program has ended; it is thrown again into a module that catches it. */
  end?: ModuleEnd
}

/** Runs a WASI module. The owner of the thread kills it when the module does not end. */
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

/** Compiles, links and starts the module; every failure is an end of the program. */
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

/** Functions for every import of the module; an unimplemented WASI call returns ENOSYS. */
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

/** Larger modules are not compiled. */
export const mostModuleBytes = 16 * 1_048_576
const mostImports = 1_000
const mostTables = 16
/** Most entries of a table, also after growing; large programs have some ten thousand functions. */
const mostTableEntries = 1_000_000
const mostPages = 65_536

/**
 * The module with its memory and tables capped. Refused, with BinaryError, is what would use memory elsewhere or import
 * it: imports that are not functions, a second memory, 64-bit or shared memory, and GC types.
 */
export function capModule(bytes: Uint8Array, memoryBytes: number): Uint8Array {
  if (bytes.length > mostModuleBytes) throw new BinaryError(`the module is larger than ${mostModuleBytes} bytes`)
  const parts = sectionsOf(bytes).map((section) => capSection(bytes, section, Math.floor(memoryBytes / pageBytes)))
  return new Uint8Array(Buffer.concat([bytes.subarray(0, 8), ...parts]))
}

function capSection(bytes: Uint8Array, { id, start, body, end }: Section, pages: number): Uint8Array {
  const reader = createReader(bytes, body, end)
  if (id === sectionIds.type) checkTypes(reader)
  else if (id === sectionIds.import) checkImports(reader)
  else if (id === sectionIds.table) return encodeSection(id, capTables(reader))
  else if (id === sectionIds.memory) return encodeSection(id, capMemories(reader, pages))
  return bytes.subarray(start, end)
}

const functionType = 0x60

function checkTypes(reader: BinaryReader): void {
  for (let left = reader.u32(); left > 0; left--) {
    if (reader.u8() !== functionType) throw new BinaryError('types other than functions are not supported')
    // Parameters, then results; types of more than one byte need a feature that is refused above.
    reader.skip(reader.u32())
    reader.skip(reader.u32())
  }
}

function checkImports(reader: BinaryReader): void {
  const count = reader.u32()
  if (count > mostImports) throw new BinaryError(`the module imports more than ${mostImports} things`)
  for (let left = count; left > 0; left--) {
    reader.skip(reader.u32())
    reader.skip(reader.u32())
    if (reader.u8() !== 0) throw new BinaryError('only functions can be imported')
    reader.u32()
  }
}

const [funcref, externref] = [0x70, 0x6f]

function capTables(reader: BinaryReader): number[] {
  const count = reader.u32()
  if (count > mostTables) throw new BinaryError(`the module has more than ${mostTables} tables`)
  const tables = Array.from({ length: count }, () => {
    const type = reader.u8()
    if (type !== funcref && type !== externref) throw new BinaryError('tables of typed references are not supported')
    return [type, ...capped(reader.limits(), mostTableEntries, 'table')]
  })
  return [...encodeU32(count), ...tables.flat()]
}

function capMemories(reader: BinaryReader, pages: number): number[] {
  const count = reader.u32()
  if (count > 1) throw new BinaryError('the module has more than one memory')
  const memories = Array.from({ length: count }, () => capped(reader.limits(), Math.min(pages, mostPages), 'memory'))
  return [...encodeU32(count), ...memories.flat()]
}

function capped({ initial, maximum }: Limits, most: number, what: string): number[] {
  if (initial > most) throw new BinaryError(`the ${what} starts larger than it may be`)
  return [1, ...encodeU32(initial), ...encodeU32(Math.min(maximum ?? most, most))]
}

/** Calls for arguments, environment, clocks, randomness, polling and exit. */
export function baseCalls({ memory, clock, argv, env, random }: ModuleProgram): Calls {
  const sizes = (texts: readonly string[]) => (count: number, bytes: number) => {
    memory.setU32(count, texts.length)
    memory.setU32(
      bytes,
      texts.reduce((sum, text) => sum + Buffer.byteLength(text) + 1, 0),
    )
  }
  const put = (texts: readonly string[]) => (list: number, room: number) => {
    let at = room
    for (const [index, text] of texts.entries()) {
      const bytes = Buffer.from(`${text}\0`)
      memory.setU32(list + index * 4, at)
      memory.bytes(at, bytes.length).set(bytes)
      at += bytes.length
    }
  }
  const time = (id: number): bigint => {
    const now = clock.read(id)
    if (now === undefined) throw new WasiError(errno.inval)
    return now
  }
  return {
    args_sizes_get: sizes(argv),
    args_get: put(argv),
    environ_sizes_get: sizes(env),
    environ_get: put(env),
    clock_res_get(id: number, result: number) {
      time(id)
      memory.setU64(result, 1_000)
    },
    clock_time_get: (id: number, _precision: bigint, result: number) => memory.setU64(result, time(id)),
    random_get: (at: number, length: number) => random(memory.bytes(at, length)),
    sched_yield: () => undefined,
    proc_exit(code: number) {
      throw new ModuleEnd(code & 0xff)
    },
    poll_oneoff: (input: number, output: number, count: number, result: number) =>
      poll({ memory, clock }, { input, output, count, result }),
  }
}

const mostSubscriptions = 1_024
const [subscriptionBytes, eventBytes] = [48, 32]
const clockEvent = 0
const absoluteTime = 1

/** Files are always ready; without one the call waits for the shortest timeout. */
function poll(
  { memory, clock }: Pick<ModuleProgram, 'memory' | 'clock'>,
  at: { readonly input: number; readonly output: number; readonly count: number; readonly result: number },
): number | undefined {
  if (at.count === 0 || at.count >>> 0 > mostSubscriptions) return errno.inval
  const all = Array.from({ length: at.count }, (_, index) => {
    const start = at.input + index * subscriptionBytes
    const type = memory.u8(start + 8)
    return { userdata: memory.u64(start), type, wait: type === clockEvent ? waitOf(start) : 0n }
  })
  const least = all.reduce((first, { wait }) => (wait < first ? wait : first), all[0]?.wait ?? 0n)
  if (least > 0n) clock.wait(least)
  const ready = all.filter(({ wait }) => wait <= least)
  for (const [index, { userdata, type }] of ready.entries()) {
    const event = at.output + index * eventBytes
    memory.bytes(event, eventBytes).fill(0)
    memory.setU64(event, userdata)
    memory.setU8(event + 10, type)
  }
  memory.setU32(at.result, ready.length)
  return undefined

  function waitOf(start: number): bigint {
    const now = clock.read(memory.u32(start + 16))
    if (now === undefined) throw new WasiError(errno.inval)
    const timeout = memory.u64(start + 24)
    if ((memory.u16(start + 40) & absoluteTime) === 0) return timeout
    return timeout > now ? timeout - now : 0n
  }
}
