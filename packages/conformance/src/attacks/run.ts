import assert from 'node:assert/strict'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import type { SandboxLimits } from '@gantry/contract'
import type { Outcome, Runtime, SandboxJob, SandboxSpec } from '@gantry/core/internal/runtimes/runtime'
import { noteCase } from '../matrix.ts'
import type { Attack, Ground } from './attack.ts'

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

/** Makes every attack on a runtime, each beside its control; what is explained counts as skipped, with the reason. */
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
        if (typeof attack.control === 'function') assert.equal(await attack.control(ground), 'succeeded', 'the control')
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

/** One program in a sandbox of its own. */
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
