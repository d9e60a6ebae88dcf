import { after, test } from 'node:test'
import type { SandboxLimits } from '@gantry/contract'
import type { Runtime } from '@gantry/core/internal/runtimes/runtime'
import { attackLimits, runOnce } from './attacks/attack.ts'
import { noteCase, type RuntimeAbility, type RuntimeBench } from './runtime-case.ts'
import { gatewayCases } from './runtime-gateway.ts'
import { limitCases } from './runtime-limits.ts'
import { programCases } from './runtime-programs.ts'

/** A runtime under test. */
export interface RuntimeFixture {
  readonly runtime: Runtime
}

/**
 * The contract of Runtime; every implementation runs it. `lacks` names abilities that a runtime does not have, and why;
 * `usual` are limits for programs of which none is tested, for a runtime that is slow.
 */
export function testRuntime(
  name: string,
  open: () => Promise<RuntimeFixture>,
  lacks: { readonly [Ability in RuntimeAbility]?: string } = {},
  usual: Partial<SandboxLimits> = {},
): void {
  let opened: Promise<RuntimeFixture> | undefined
  const fixture = (): Promise<RuntimeFixture> => {
    opened ??= open()
    return opened
  }
  after(async () => {
    if (opened !== undefined) await (await opened).runtime.close()
  })
  for (const { title, needs, check } of [...programCases, ...gatewayCases, ...limitCases]) {
    const known = { runtime: name, suite: 'conformance', title } as const
    const reason = needs.map((ability) => lacks[ability]).find((why) => why !== undefined)
    if (reason !== undefined) {
      test(`${name}: ${title}`, { skip: reason }, () => undefined)
      noteCase({ ...known, end: 'skipped', reason })
      continue
    }
    test(`${name}: ${title}`, async () => {
      const { runtime } = await fixture()
      const run: RuntimeBench['run'] = (job, limits = {}, spec = {}) =>
        runOnce(runtime, job, { ...spec, limits: { ...attackLimits, ...usual, ...limits } })
      try {
        await check({ runtime, run })
        noteCase({ ...known, end: 'passed' })
      } catch (error) {
        noteCase({ ...known, end: 'failed' })
        throw error
      }
    })
  }
}
