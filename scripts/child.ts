import { execFile } from 'node:child_process'

/** Output and exit code of a program; `code` is undefined when it was killed or could not start. */
export interface ChildOutcome {
  readonly code: number | undefined
  readonly stdout: string
  readonly stderr: string
}

/** Runs a program to its end or for `timeoutMs`; never rejects. */
export function runChild(
  file: string,
  args: readonly string[],
  options: { readonly cwd: string; readonly timeoutMs?: number; readonly env?: NodeJS.ProcessEnv },
): Promise<ChildOutcome> {
  const { cwd, timeoutMs = 30_000, env = process.env } = options
  return new Promise((resolve) => {
    const limits = { cwd, env, timeout: timeoutMs, killSignal: 'SIGKILL', maxBuffer: 16 * 2 ** 20 } as const
    const child = execFile(file, args, limits, (error, stdout, stderr) => {
      const code = error === null ? 0 : typeof error.code === 'number' ? error.code : undefined
      const reason = code === undefined ? `${stderr}${error?.message ?? ''}\n` : stderr
      resolve({ code, stdout, stderr: reason })
    })
    child.stdin?.end()
  })
}

/** The lines in which two texts differ, for display; empty when they are equal. */
export function differences(expected: string, actual: string, most = 12): string[] {
  const [wanted, got] = [expected.split('\n'), actual.split('\n')]
  const found: string[] = []
  for (let index = 0; index < Math.max(wanted.length, got.length); index++) {
    if (wanted[index] === got[index]) continue
    if (found.length >= most) return [...found, '  …']
    found.push(`  line ${index + 1}`)
    found.push(`    expected ${wanted[index] ?? '(nothing)'}`, `    got      ${got[index] ?? '(nothing)'}`)
  }
  return found
}
