import { after, test } from 'node:test'
import { feedFillers, moreFillers } from '../../packages/conformance/src/stalls.ts'
import { libraryEntryPoints } from '../../packages/core/src/stalls.fixture.ts'

const { points, close } = libraryEntryPoints()
after(close)

for (const point of points) {
  test(`no input of the long list stalls the event loop: ${point.name}`, async () => {
    await feedFillers(point, moreFillers)
  })
}
