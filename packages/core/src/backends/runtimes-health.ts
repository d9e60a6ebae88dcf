import type { RuntimesSource } from '../runtimes/runtimes.ts'
import type { Health } from './backend.ts'

/** Up when a program could run in one of the runtimes; each is started and attacked, once for a process. */
export async function runtimesHealth(runtimes: RuntimesSource, signal: AbortSignal): Promise<Health> {
  const all = await (await runtimes()).list(signal)
  const works = all.some(({ available, isolation }) => available && isolation !== 'none')
  if (works) return { status: 'up' }
  return { status: 'down', message: 'No runtime that isolates works here; `gantry doctor` says why.' }
}
