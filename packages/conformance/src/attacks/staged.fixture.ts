import type { Runtime } from '@gantry/core/internal/runtimes/runtime'
import { createProcessRuntime } from '@gantry/sandbox/internal/drivers/process'
import { createUnsafeHostRuntime } from '@gantry/sandbox/internal/drivers/unsafe-host'
import { runOnce } from './run.ts'

/** A worker by itself: opens the runtime it is told, runs one program in it and says what that returned. */
const makers: { readonly [kind: string]: () => Runtime } = {
  process: () => createProcessRuntime(),
  unsafe_host: () => createUnsafeHostRuntime(),
}
const runtime = makers[process.argv[2] ?? '']?.()
if (runtime === undefined) throw new Error('There is no such runtime.')
try {
  const program = { kind: 'code', language: 'python', code: process.env.GANTRY_STAGED ?? '' } as const
  const { value, exit, stderr } = await runOnce(runtime, { program })
  if (value === undefined) throw new Error(`${JSON.stringify(exit)} ${new TextDecoder().decode(stderr.bytes)}`)
  process.stdout.write(`\n${JSON.stringify(value)}\n`)
} finally {
  await runtime.close()
}
