import type { Runtime, SandboxJob } from '@gantry/core/internal/runtimes/runtime'
import { attackLimits } from './run.ts'

/**
 * Does something while a program is known to run: once it has said something, which is handed on. The program is killed
 * after that, so it may wait as long as it likes.
 */
export async function whileRunning<T>(
  runtime: Runtime,
  job: SandboxJob,
  meanwhile: (said: string) => T | Promise<T>,
): Promise<T> {
  const [said, enough] = [Promise.withResolvers<string>(), new AbortController()]
  const { program } = job
  const language = program.kind === 'code' && program.language !== 'bash' ? { language: program.language } : {}
  const sandbox = await runtime.open({ ...language, limits: attackLimits, network: 'none' }, enough.signal)
  try {
    const onOutput = (_: string, bytes: Uint8Array): void => said.resolve(new TextDecoder().decode(bytes))
    const running = sandbox.run({ ...job, onOutput }, enough.signal).then(
      () => said.reject(new Error('The program ended before it said anything.')),
      (error: unknown) => said.reject(error),
    )
    const found = await meanwhile(await said.promise)
    enough.abort()
    await running
    return found
  } finally {
    await sandbox.dispose()
  }
}
