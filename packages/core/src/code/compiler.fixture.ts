/** Checks a program that the compiler does not finish before this process is killed. */
import { createSlots } from '../resilience/slots.ts'
import { compile } from './compiler.ts'

/** A program that takes longer to compile than any test runs. */
export const endless = `const a = ${'['.repeat(1_000)}${']'.repeat(1_000)}`

if (process.argv[1] === import.meta.filename) {
  await compile({ name: 'main.ts', text: endless }, '', { slots: createSlots(), signal: new AbortController().signal })
}
