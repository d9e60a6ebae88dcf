import { test } from 'node:test'
import { noteCase } from '@gantry/conformance/internal/runtime-case'

/** A test whose title begins with the number of an attack, so that the runtimes page lists its result. */
export function attackTest(title: string, body: () => Promise<void>): void {
  const [number = '', ...words] = title.split(': ')
  const known = { runtime: 'wasm', suite: 'attack', number: Number(number), title: words.join(': ') } as const
  test(title, async () => {
    try {
      await body()
      noteCase({ ...known, end: 'blocked' })
    } catch (error) {
      noteCase({ ...known, end: 'failed' })
      throw error
    }
  })
}
