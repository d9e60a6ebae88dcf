import { type TestContext, test } from 'node:test'
import { asking } from './call-store/asking.ts'
import { cancelling } from './call-store/cancelling.ts'
import { claiming, needing } from './call-store/claiming.ts'
import { ending } from './call-store/ending.ts'
import { rotation, slots } from './call-store/fair-share.ts'
import { holding, reclaiming } from './call-store/leases.ts'
import type { Cases, StoreFixture } from './call-store/samples.ts'
import { submitting } from './call-store/submitting.ts'

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
  rotation,
}

/** The contract of CallStore. `open` prepares the engine once and returns a function that gives an empty store. */
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
