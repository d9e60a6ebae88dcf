import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { feedFillers, missedTicks } from '@gantry/conformance/internal/stalls'
import { rules } from './policies/rules.ts'
import { libraryEntryPoints } from './stalls.fixture.ts'

const { points, close } = libraryEntryPoints()
after(close)

for (const point of points) {
  test(`no filler stalls the event loop: ${point.name}`, async () => {
    await feedFillers(point)
  })
}

test('an invalid JSON Pointer in a policy is refused at once, however many slashes it has', async () => {
  const pointer = `${'/'.repeat(29)}~`
  const ticks = await missedTicks(() => {
    assert.throws(() => rules([{ allow: 'demo:add', when: { [pointer]: { eq: 1 } } as never }]), /JSON Pointer/)
  })
  assert.ok(ticks <= 12, `${ticks} ticks`)
})
