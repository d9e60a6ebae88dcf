/** Checks a program that a compiler does not come to an end with, until somebody kills this process. */
import { createSlots } from '../resilience/slots.ts'
import { compile } from './compiler.ts'

/** What a compiler takes longer for than any test. */
export const endless = `const a = ${'['.repeat(1_000)}${']'.repeat(1_000)}`

if (process.argv[1] === import.meta.filename) {
  await compile({ name: 'main.ts', text: endless }, '', { turns: createSlots(), signal: new AbortController().signal })
}
