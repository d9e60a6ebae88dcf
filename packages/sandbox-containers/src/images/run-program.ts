import { type SpawnOptions, spawn } from 'node:child_process'
import { ToolError } from '@gantry/contract'

type RunOptions = Pick<SpawnOptions, 'env' | 'cwd'> & {
  readonly signal: AbortSignal
  /** Opened as descriptor 3 of the program; nothing when absent. */
  readonly third?: 'ignore'
}

/** Runs a program of the host and returns what it wrote. Rejects with RUNTIME_UNAVAILABLE when it fails. */
export async function runProgram(program: string, args: readonly string[], options: RunOptions): Promise<string> {
  const { signal, env: own, cwd, third } = options
  const env = { ...process.env, DEBIAN_FRONTEND: 'noninteractive', LC_ALL: 'C', ...own }
  const child = spawn(program, args, {
    stdio: ['ignore', 'pipe', 'pipe', ...(third === undefined ? [] : [third])],
    env,
    ...(cwd === undefined ? {} : { cwd }),
    signal,
  })
  const pieces: Buffer[] = []
  child.stdout?.on('data', (piece: Buffer) => pieces.push(piece))
  await endOfProgram(child, `${program} ${args.at(-1)}`)
  return Buffer.concat(pieces).toString()
}

/** Waits for the end of a program. Rejects with the last line that it complained with. */
export function endOfProgram(child: ReturnType<typeof spawn>, what: string): Promise<void> {
  let said = ''
  child.stderr?.on('data', (piece: Buffer) => {
    said = (said + piece.toString()).slice(-2_000)
  })
  return new Promise((resolve, reject) => {
    child.on('error', reject)
    child.on('close', (code) => {
      if (code === 0) return resolve()
      const last = said.trim().split('\n').at(-1) ?? ''
      reject(new ToolError('RUNTIME_UNAVAILABLE', `The image could not be built: ${what} ended with ${code}. ${last}`))
    })
  })
}
