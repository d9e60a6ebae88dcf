import { type TestContext, test } from 'node:test'
import { asking } from './call-store/asking.ts'
import { cancelling } from './call-store/cancelling.ts'
import { claiming } from './call-store/claiming.ts'
import { ending } from './call-store/ending.ts'
import { holding } from './call-store/holding.ts'
import { needing } from './call-store/needing.ts'
import { reclaiming } from './call-store/reclaiming.ts'
import type { Cases, StoreFixture } from './call-store/samples.ts'
import { slots } from './call-store/slots.ts'
import { submitting } from './call-store/submitting.ts'
import { turns } from './call-store/turns.ts'

const groups: { readonly [name: string]: Cases } = {
  submitting,
  claiming,
  holding,
  ending,
  reclaiming,
  asking,
  needing,
  cancelling,
  slots,
  turns,
}

/** The contract of CallStore. `open` gets the engine ready once; what it resolves with gives an empty store each time. */
export function testCallStore(
  name: string,
  open: (t: TestContext) => Promise<() => StoreFixture | Promise<StoreFixture>>,
): void {
  test(`${name} as a call store`, async (t) => {
    const create = await open(t)
    for (const [group, cases] of Object.entries(groups)) {
      await t.test(group, async (t) => {
        for (const [sentence, body] of Object.entries(cases)) {
          await t.test(sentence, async () => body(await create()))
        }
      })
    }
  })
}
