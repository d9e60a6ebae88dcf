import assert from 'node:assert/strict'
import { appendFileSync, existsSync, readFileSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import type { SandboxLimits } from '@gantry/contract'
import type { Outcome, Runtime, SandboxJob, SandboxSpec } from '@gantry/core/internal/runtimes/runtime'
import { noteCase } from '../runtime-case.ts'

/** The outcome of an attack, judged by its effect and never by the text of an error. */
export type AttackEnd = 'blocked' | 'succeeded'

/** The reason why an attack cannot be blocked on this machine; it counts as explained, never as blocked. */
export interface Excused {
  readonly explained: string
}

/** Where an attack runs: the runtime under test, and one without isolation. */
export interface Ground {
  readonly kind: string
  readonly runtime: Runtime
  /** The runtime of `outside`, which guards against nothing. */
  readonly unguarded: Runtime
  /** Runs a job in a fresh sandbox of the runtime under test. */
  inside(job: SandboxJob, spec?: Partial<SandboxSpec>): Promise<Outcome>
  /** Runs the same job where nothing guards against it, under the limits given, so that it cannot hurt the machine. */
  outside(job: SandboxJob, spec?: Partial<SandboxSpec>): Promise<Outcome>
  /** A folder on the host that is this attack's own, and removed after it. */
  readonly folder: string
  /** Adds a finding to the test's report, to explain why an attack succeeded. */
  note(text: string): void
}

/** One attack of the list in SECURITY.md, by its number there. */
export interface Attack {
  readonly number: number
  readonly title: string
  /** Makes the attack on the runtime and looks for its effect. */
  attempt(ground: Ground): Promise<AttackEnd | Excused>
  /**
   * Shows that the same attack succeeds without the guard; a string is the reason why that cannot be shown here.
   * Without it a passing attempt would prove nothing.
   */
  readonly control: ((ground: Ground) => Promise<AttackEnd>) | string
  /** Runtimes in which there is nothing to attack, and why. */
  readonly explained?: { readonly [kind: string]: string }
}

/** Runtimes in containers, as the suites name them. */
export const containerKinds = ['docker', 'containerd', 'gvisor', 'gvisor through containerd'] as const
export type ContainerKind = (typeof containerKinds)[number]

/** Runtimes in pods of a cluster, as the suites name them. */
export const podKinds = ['kubernetes', 'agent-sandbox'] as const
export type PodKind = (typeof podKinds)[number]

/** The same reason for all of them. */
export function inEveryContainer(reason: string): { readonly [Kind in ContainerKind]: string } {
  return { docker: reason, containerd: reason, gvisor: reason, 'gvisor through containerd': reason }
}

export function isInPod(kind: string): kind is PodKind {
  return podKinds.some((one) => one === kind)
}

/** Small enough that no attack can hurt the machine, large enough for every interpreter. */
export const attackLimits: SandboxLimits = {
  wallMs: 20_000,
  cpuMs: 20_000,
  memoryBytes: 256 * 1024 * 1024,
  pids: 48,
  diskBytes: 32 * 1024 * 1024,
  stdoutBytes: 256 * 1024,
  stderrBytes: 256 * 1024,
}

export interface AttackFixture {
  readonly runtime: Runtime
  /** Guards against nothing; for the controls. */
  readonly unguarded: Runtime
}

/** Runs every attack on a runtime, each with its control; an explained attack is skipped with the reason. */
export function testAttacks(name: string, attacks: readonly Attack[], open: () => Promise<AttackFixture>): void {
  let opened: Promise<AttackFixture> | undefined
  const fixture = (): Promise<AttackFixture> => {
    opened ??= open()
    return opened
  }
  after(async () => {
    if (opened === undefined) return
    const { runtime, unguarded } = await opened
    await Promise.all([runtime.close(), unguarded.close()])
  })
  for (const attack of attacks) {
    const title = `${name}: attack ${attack.number}: ${attack.title}`
    const explained = attack.explained?.[name]
    const attackCase = { runtime: name, suite: 'attack', number: attack.number, title: attack.title } as const
    if (explained !== undefined) {
      test(title, { skip: explained }, () => undefined)
      noteCase({ ...attackCase, end: 'explained', reason: explained })
      continue
    }
    test(title, async (t) => {
      const folder = await mkdtemp(join(tmpdir(), 'gantry-attack-'))
      const notes: string[] = []
      try {
        const ground = groundOf(name, await fixture(), folder, (text) => notes.push(text))
        if (typeof attack.control === 'function') await control(attack, attack.control, ground)
        const end = await attack.attempt(ground)
        if (typeof end === 'object') {
          t.skip(end.explained)
          noteCase({ ...attackCase, end: 'explained', reason: end.explained })
          return
        }
        assert.equal(end, 'blocked')
        const reason = typeof attack.control === 'string' ? { reason: `no control: ${attack.control}` } : {}
        noteCase({ ...attackCase, end: 'blocked', ...reason })
      } catch (error) {
        for (const note of notes) t.diagnostic(note)
        noteCase({ ...attackCase, end: 'failed' })
        throw error
      } finally {
        await rm(folder, { recursive: true, force: true })
      }
    })
  }
}

/**
 * Runs the control, unless another suite of this run of the tests has seen it succeed. `GANTRY_ATTACK_CONTROLS` names the
 * file of those; a control that uses the runtime under test is never among them.
 */
async function control(attack: Attack, run: (ground: Ground) => Promise<AttackEnd>, ground: Ground): Promise<void> {
  const { GANTRY_ATTACK_CONTROLS: file } = process.env
  const line = `${attack.number} ${attack.title}`
  if (file !== undefined && existsSync(file) && readFileSync(file, 'utf8').split('\n').includes(line)) return
  const used = { guarded: false }
  const own = new Proxy(ground, {
    get(target, name) {
      if (name === 'inside' || name === 'runtime' || name === 'kind') used.guarded = true
      return Reflect.get(target, name)
    },
  })
  assert.equal(await run(own), 'succeeded', 'the control')
  if (file !== undefined && !used.guarded) appendFileSync(file, `${line}\n`)
}

function groundOf(kind: string, { runtime, unguarded }: AttackFixture, folder: string, note: Ground['note']): Ground {
  return {
    kind,
    runtime,
    unguarded,
    folder,
    note,
    inside: (job, spec) => runOnce(runtime, job, spec),
    outside: (job, spec) => runOnce(unguarded, job, spec),
  }
}

/** Runs one program in its own sandbox. */
export async function runOnce(runtime: Runtime, job: SandboxJob, spec: Partial<SandboxSpec> = {}): Promise<Outcome> {
  const { program } = job
  const language = program.kind === 'code' && program.language !== 'bash' ? { language: program.language } : {}
  const whole: SandboxSpec = { network: 'none', ...language, ...spec, limits: { ...attackLimits, ...spec.limits } }
  const sandbox = await runtime.open(whole, AbortSignal.timeout(60_000))
  try {
    return await sandbox.run(job, AbortSignal.timeout(60_000))
  } finally {
    await sandbox.dispose()
  }
}

/**
 * Does something while a program is known to run: once it has said something, which is handed on. The program is killed
 * after that, so it may wait as long as it likes.
 */
export async function whileRunning<T>(
  runtime: Runtime,
  job: SandboxJob,
  meanwhile: (said: string) => T | Promise<T>,
): Promise<T> {
  const [said, enough] = [Promise.withResolvers<string>(), new AbortController()]
  const { program } = job
  const language = program.kind === 'code' && program.language !== 'bash' ? { language: program.language } : {}
  const sandbox = await runtime.open({ ...language, limits: attackLimits, network: 'none' }, enough.signal)
  try {
    const onOutput = (_: string, bytes: Uint8Array): void => said.resolve(new TextDecoder().decode(bytes))
    const running = sandbox.run({ ...job, onOutput }, enough.signal).then(
      () => said.reject(new Error('The program ended before it said anything.')),
      (error: unknown) => said.reject(error),
    )
    const found = await meanwhile(await said.promise)
    enough.abort()
    await running
    return found
  } finally {
    await sandbox.dispose()
  }
}
