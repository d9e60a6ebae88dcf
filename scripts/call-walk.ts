import { AsyncLocalStorage } from 'node:async_hooks'
import { subscribe } from 'node:diagnostics_channel'
import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { type Profiler, Session } from 'node:inspector/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { loadConfig, serve } from '@gantry/service/serve'
import { pgliteTemplate } from '../packages/service/test/databases.fixture.ts'

/**
 * Which files one HTTP call passes, in the order in which it first enters them. A service with the embedded database runs
 * in this process, warm; the inspector counts the functions that run during a call.
 *
 * `npm run walk` prints the files. `--write` updates the table of ARCHITECTURE.md: it removes files that the call no
 * longer enters, and adds new ones with `…` as their description. `--json` prints the paths as JSON.
 */
const root = dirname(import.meta.dirname)
const page = join(root, 'ARCHITECTURE.md')
/** A row of the table of ARCHITECTURE.md. */
const row = /^\| `(packages\/[^`]+)` \| (.*) \|$/
/** Warm-up calls before the first measurement. */
const warmCalls = 20
const windows = 4
const walkedCalls = 3
/** Longer than the work after a response. */
const windowMs = 400
/** Longer than the intervals of the periodic jobs. */
const pauseMs = 3_000

const folder = mkdtempSync(join(tmpdir(), 'gantry-walk-'))
// The calls are warm, so that it does not matter who created the database; creating one takes seconds.
cpSync(join(await pgliteTemplate(), 'db'), join(folder, 'db'), { recursive: true })
const stop = new AbortController()
const ready = Promise.withResolvers<string>()
const served = serve({
  load: () => loadConfig({ folder, folderMemory: new Map(), environment: environment(), signal: stop.signal }),
  say: () => undefined,
  log: { write: () => undefined },
  ready: (url) => ready.resolve(url ?? ''),
  signal: stop.signal,
})
served.catch(ready.reject)
try {
  const url = await ready.promise
  const key = readFileSync(join(folder, 'key'), 'utf8').trim()
  const call = async (): Promise<void> => {
    const response = await fetch(`${url}/v1/calls`, {
      method: 'POST',
      headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
      body: JSON.stringify({ tool: 'demo:add', args: { a: 5, b: 3 } }),
    })
    const text = await response.text()
    if (response.status !== 200) throw new Error(`The call was answered ${response.status}: ${text}`)
  }
  for (let count = 0; count < warmCalls; count++) await call()
  const files = await walk(call)
  if (process.argv.includes('--json')) console.log(JSON.stringify(files))
  else if (process.argv.includes('--write')) writeFileSync(page, withTable(readFileSync(page, 'utf8'), files))
  else console.log(`${files.join('\n')}\n\n${files.length} files`)
} finally {
  stop.abort()
  await served
  rmSync(folder, { recursive: true, force: true })
}

function environment(): NodeJS.ProcessEnv {
  return { PATH: process.env.PATH, GANTRY_PORT: '0', GANTRY_DATA: folder }
}

/** A function by its position, `file:offset`. */
type Functions = ReadonlyMap<string, { readonly file: string; readonly scriptId: string; readonly offset: number }>

async function walk(call: () => Promise<void>): Promise<readonly string[]> {
  const session = new Session()
  session.connect()
  await session.post('Profiler.enable')
  await session.post('Profiler.startPreciseCoverage', { callCount: true, detailed: false })
  const window = async (work?: () => Promise<void>, ms = windowMs): Promise<Functions> => {
    await session.post('Profiler.takePreciseCoverage')
    await work?.()
    await sleep(ms)
    const { result } = await session.post('Profiler.takePreciseCoverage')
    return functionsOf(result)
  }
  const calls: Functions[] = []
  const pauses: Functions[] = []
  for (let count = 0; count < windows; count++) {
    calls.push(await window(call))
    pauses.push(await window())
  }
  pauses.push(await window(undefined, pauseMs))
  await session.post('Profiler.stopPreciseCoverage')
  const functions = inAll(calls)
  const rounds = await entries(session, functions, call)
  session.disconnect()
  // The work of a batch or a connection for the call runs outside its async context. So does background work, but that
  // also runs only after the response, or in a pause without calls.
  const idle = new Set(pauses.flatMap((pause) => [...pause.values()]).map(({ file }) => file))
  const passed = rounds.map((round) =>
    round.filter(({ file, inCall, answered }) => inCall || !(answered || idle.has(file))).map(({ file }) => file),
  )
  const [first = [], ...others] = passed.map((files) => new Set(files))
  const seen = new Set(rounds.flat().map(({ file }) => file))
  // A function without a statement takes no breakpoint; only the coverage has it.
  const unseen = new Set(
    [...functions.values()].map(({ file }) => file).filter((file) => !seen.has(file) && !idle.has(file)),
  )
  return [...[...first].filter((file) => others.every((files) => files.has(file))), ...[...unseen].sort()]
}

function functionsOf(scripts: readonly Profiler.ScriptCoverage[]): Functions {
  const ours = scripts.filter(({ url }) => url.startsWith(`file://${root}/packages/`))
  return new Map(
    ours.flatMap(({ url, scriptId, functions }) => {
      const file = fileURLToPath(url).slice(root.length + 1)
      const ran = functions.flatMap(({ ranges }) => ranges[0] ?? []).filter(({ count }) => count > 0)
      return ran.map(({ startOffset: offset }) => [`${file}:${offset}`, { file, scriptId, offset }] as const)
    }),
  )
}

function inAll([first, ...others]: readonly Functions[]): Functions {
  return new Map([...(first ?? [])].filter(([place]) => others.every((other) => other.has(place))))
}

interface Entry {
  readonly file: string
  /** Whether it was entered in the async context of the request. */
  readonly inCall: boolean
  /** Whether the caller already had its response. */
  readonly answered: boolean
}

declare global {
  /** Called by breakpoints with the function that they are in. */
  var noteEntry: ((place: string) => void) | undefined
}

/** The functions entered during each of some calls, in order, by breakpoints that record them and never pause. */
async function entries(session: Session, functions: Functions, call: () => Promise<void>): Promise<Entry[][]> {
  await session.post('Debugger.enable')
  for (const [place, { file, scriptId, offset }] of functions) {
    const before = readFileSync(join(root, file), 'utf8').slice(0, offset).split('\n')
    const location = { scriptId, lineNumber: before.length - 1, columnNumber: before.at(-1)?.length ?? 0 }
    const condition = `globalThis.noteEntry?.(${JSON.stringify(place)})`
    // Two functions may start at the same position; the second breakpoint is refused.
    await session.post('Debugger.setBreakpoint', { location, condition }).catch(() => undefined)
  }
  // The server may be closing the idle connection right now; this call opens another.
  await call().catch(() => undefined)
  const context = new AsyncLocalStorage<number>()
  const rounds: Entry[][] = []
  subscribe('http.server.request.start', () => context.enterWith(rounds.length))
  for (let count = 0; count < walkedCalls; count++) {
    const entered: Entry[] = []
    let answered = false
    rounds.push(entered)
    globalThis.noteEntry = (place) => {
      const { file = '' } = functions.get(place) ?? {}
      entered.push({ file, inCall: context.getStore() === rounds.length, answered })
    }
    await call()
    answered = true
    await sleep(windowMs)
  }
  globalThis.noteEntry = undefined
  await session.post('Debugger.disable')
  return rounds
}

/** ARCHITECTURE.md with the rows of these files, in this order. */
function withTable(text: string, files: readonly string[]): string {
  const lines = text.split('\n')
  const known = new Map(lines.map((line) => [row.exec(line)?.[1], row.exec(line)?.[2]]))
  const first = lines.findIndex((line) => row.test(line))
  const rows = files.map((file) => `| \`${file}\` | ${known.get(file) ?? '…'} |`)
  const rest = lines.filter((line) => !row.test(line))
  return [...rest.slice(0, first), ...rows, ...rest.slice(first)].join('\n')
}
