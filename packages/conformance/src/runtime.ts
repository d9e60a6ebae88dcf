import { after, test } from 'node:test'
import type { Runtime } from '@gantry/core/internal/runtimes/runtime'
import { attackLimits, runOnce } from './attacks/run.ts'
import { noteCase } from './matrix.ts'
import type { RuntimeAbility, RuntimeBench } from './runtime-case.ts'
import { gatewayCases } from './runtime-gateway.ts'
import { limitCases } from './runtime-limits.ts'
import { programCases } from './runtime-programs.ts'

/** What a runtime under test can do; what it cannot is skipped with the reason given here. */
export interface RuntimeFixture {
  readonly runtime: Runtime
}

/** The contract of Runtime; every implementation runs it. `lacks` names abilities that a runtime does not have, and why. */
export function testRuntime(
  name: string,
  open: () => Promise<RuntimeFixture>,
  lacks: { readonly [Ability in RuntimeAbility]?: string } = {},
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
        runOnce(runtime, job, { ...spec, limits: { ...attackLimits, ...limits } })
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
