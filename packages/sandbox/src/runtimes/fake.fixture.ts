import assert from 'node:assert/strict'
import type { Isolation, SandboxLimit } from '@gantry/contract'
import type {
  Outcome,
  Probe,
  Program,
  Refusal,
  Runtime,
  Sandbox,
  SandboxJob,
  SandboxSpec,
} from '@gantry/core/internal/runtimes/runtime'
import type { Cancel, Timing } from '../pools/timing.ts'

export const never = new AbortController().signal

/** Runs everything that does not wait for a timer. */
export function settled(): Promise<void> {
  return new Promise((resolve) => {
    setImmediate(resolve)
  })
}

export interface FakeTiming extends Timing {
  /** Number of pending timers. */
  readonly pending: number
  /** Advances time; each timer fires at its own time, and its microtasks run before the next. */
  advance(ms: number): Promise<void>
}

/** A clock that only `advance` moves. */
export function fakeTiming(): FakeTiming {
  const timers = new Set<{ readonly at: number; readonly work: () => void }>()
  let time = 1_000
  const next = (until: number) => [...timers].filter(({ at }) => at <= until).sort((one, other) => one.at - other.at)[0]
  return {
    now: () => time,
    after(ms, work): Cancel {
      const timer = { at: time + ms, work }
      timers.add(timer)
      return () => void timers.delete(timer)
    },
    get pending() {
      return timers.size
    },
    async advance(ms) {
      const until = time + ms
      await settled()
      for (let timer = next(until); timer !== undefined; timer = next(until)) {
        timers.delete(timer)
        time = Math.max(time, timer.at)
        timer.work()
        await settled()
      }
      time = until
    },
  }
}

export interface FakeSandbox extends Sandbox {
  readonly spec: SandboxSpec
  readonly jobs: readonly SandboxJob[]
  readonly disposed: boolean
  readonly paused: boolean
  /** Ends the sandbox from inside. */
  die(): void
}

export interface FakeOptions extends Partial<Pick<Runtime, 'programs' | 'idleBytes'>> {
  readonly kind?: string
  readonly isolation?: Isolation
  readonly cost?: number
  readonly probe?: (signal: AbortSignal) => Probe | Promise<Probe>
  readonly refuses?: (spec: SandboxSpec) => Refusal | undefined
  /** May wait, or throw to fail the start. */
  readonly onOpen?: (spec: SandboxSpec, signal: AbortSignal) => unknown
  /** Opens although the signal aborted meanwhile, as a runtime may that was already ready. */
  readonly opensLate?: boolean
  /** May wait. */
  readonly onDispose?: (sandbox: FakeSandbox) => unknown
  /** What sandboxes use, when they say so. */
  readonly memoryBytes?: (sandbox: FakeSandbox) => number | undefined
  /** Called before a sandbox is paused or resumed; may wait, or throw. Without it sandboxes cannot be paused. */
  readonly onPausing?: (what: 'pause' | 'resume', sandbox: FakeSandbox) => unknown
  /** What `kill` returns; sandboxes have none when absent. */
  readonly kill?: () => boolean
  readonly run?: (job: SandboxJob, signal: AbortSignal, sandbox: FakeSandbox) => Outcome | Promise<Outcome>
}

export interface FakeRuntime extends Runtime {
  /** All sandboxes that were ever opened. */
  readonly sandboxes: readonly FakeSandbox[]
  readonly probes: number
  /** Calls of `open`, including failed ones. */
  readonly opens: number
  readonly closed: boolean
  /** Sandboxes that are open. */
  live(): readonly FakeSandbox[]
}

export const works: Probe = {
  available: true,
  version: '1.0',
  startMs: 5,
  limits: { wallMs: 'timer' },
  languages: ['python', 'javascript'],
  attacks: ['read a secret of the host'],
}

export function python(code: string): Program {
  return { kind: 'code', language: 'python', code }
}

/** The outcome of a program that prints a text. */
export function printed(text: string, hit?: SandboxLimit): Outcome {
  const bytes = new TextEncoder().encode(text)
  const none = { bytes: new Uint8Array(), total: 0, truncated: false }
  return {
    exit: hit === undefined ? { code: 0 } : { signal: 'SIGKILL' },
    stdout: { bytes, total: bytes.length, truncated: false },
    stderr: none,
    files: new Map(),
    skipped: [],
    usage: { wallMs: 1 },
    enforced: {},
    ...(hit === undefined ? {} : { hit }),
  }
}

/** A runtime that runs nothing and fails when its contract is violated. */
export function fakeRuntime(options: FakeOptions = {}): FakeRuntime {
  const { kind = 'fake', isolation = 'namespaces', cost = 1, probe = () => works, idleBytes } = options
  // The wasm runtime has no shell; the others have no WASI.
  const { programs = isolation === 'wasm' ? ['code', 'wasi'] : ['code', 'argv', 'script'] } = options
  const sandboxes: FakeSandbox[] = []
  let [probes, opens, closed] = [0, 0, false]
  return {
    kind,
    isolation,
    cost,
    programs,
    ...(idleBytes === undefined ? {} : { idleBytes }),
    sandboxes,
    get probes() {
      return probes
    },
    get opens() {
      return opens
    },
    get closed() {
      return closed
    },
    live: () => sandboxes.filter(({ disposed }) => !disposed),
    async probe(signal) {
      probes += 1
      return probe(signal)
    },
    refuses: (spec) => options.refuses?.(spec),
    async open(spec, signal) {
      opens += 1
      assert.ok(!closed, 'a closed runtime was asked for a sandbox')
      await options.onOpen?.(spec, signal)
      if (options.opensLate !== true) signal.throwIfAborted()
      const sandbox = fakeSandbox(`${kind}-${sandboxes.length}`, spec, options)
      sandboxes.push(sandbox)
      return sandbox
    },
    async close() {
      closed = true
      for (const sandbox of sandboxes) await sandbox.dispose()
    },
  }
}

function fakeSandbox(id: string, spec: SandboxSpec, options: FakeOptions): FakeSandbox {
  const { promise: ended, resolve: end } = Promise.withResolvers<void>()
  const jobs: SandboxJob[] = []
  let [dead, disposed, running, paused] = [false, false, false, false]
  void ended.then(() => {
    dead = true
  })
  const { memoryBytes, onPausing, kill } = options
  let changing = false
  const change = async (what: 'pause' | 'resume'): Promise<void> => {
    assert.ok(!changing && !running && paused === (what === 'resume'), `${id}: ${what} out of turn`)
    changing = true
    try {
      await onPausing?.(what, sandbox)
      paused = what === 'pause'
    } finally {
      changing = false
    }
  }
  const sandbox: FakeSandbox = {
    id,
    spec,
    jobs,
    ended,
    get disposed() {
      return disposed
    },
    get paused() {
      return paused
    },
    die: end,
    ...(memoryBytes === undefined ? {} : { memoryBytes: () => memoryBytes(sandbox) }),
    ...(onPausing === undefined ? {} : { pausing: { pause: () => change('pause'), resume: () => change('resume') } }),
    ...(kill === undefined ? {} : { kill: async () => kill() }),
    async run(job, signal) {
      assert.ok(!disposed, `${id} was used after its end`)
      assert.ok(!running, `${id} was used by two at a time`)
      assert.ok(jobs.length === 0 || spec.session === true, `${id} was used twice`)
      assert.ok(!dead, `${id} was used when it was dead`)
      assert.ok(!paused && !changing, `${id} was used when it was paused`)
      signal.throwIfAborted()
      jobs.push(job)
      running = true
      try {
        const text = job.program.kind === 'code' ? job.program.code : job.program.kind
        return await (options.run?.(job, signal, sandbox) ?? printed(text))
      } finally {
        running = false
      }
    },
    async dispose() {
      end()
      await options.onDispose?.(sandbox)
      disposed = true
    },
  }
  return sandbox
}

/** Settles only when the signal aborts. */
export function untilAborted(signal: AbortSignal): Promise<never> {
  return new Promise((_, reject) => {
    if (signal.aborted) reject(signal.reason)
    signal.addEventListener('abort', () => reject(signal.reason), { once: true })
  })
}
