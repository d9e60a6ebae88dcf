import { spawn } from 'node:child_process'
import { ToolError } from '@gantry/contract'

const mostOutput = 1_048_576

/**
 * First a folder, then a command. Runs the command; when descriptor 0 closes, which is our end of it, it removes the
 * folder and ends the whole group.
 */
const keeper = `
folder=$1; shift
exec 3<&0 </dev/null
"$@" 3<&- &
compiler=$!
{ read -r word <&3; rm -rf "$folder"; kill -9 0; } >/dev/null &
watcher=$!
exec 3<&-
wait $compiler; code=$?
kill -9 $watcher
exit $code
`

/**
 * Runs a compiler in a folder and gives what it printed. It is in a group of its own with a keeper that holds a pipe from
 * us: should we die, however we do, it ends at once, and the folder with it.
 * - Cancellation: `signal` ends the group.
 * - Errors: RUNTIME_UNAVAILABLE when it does not run, or prints nothing and fails.
 */
export async function compilerOutput(command: readonly string[], folder: string, signal: AbortSignal): Promise<string> {
  signal.throwIfAborted()
  const child = spawn('/bin/sh', ['-c', keeper, 'keeper', folder, ...command], {
    cwd: folder,
    env: { GOMEMLIMIT: '512MiB', PATH: '/usr/bin:/bin' },
    stdio: ['pipe', 'pipe', 'ignore'],
    detached: true,
  })
  const kill = (): void => killGroup(child.pid)
  signal.addEventListener('abort', kill, { once: true })
  try {
    return await new Promise<string>((resolve, reject) => {
      let said = ''
      child.stdout.setEncoding('utf8')
      child.stdout.on('data', (chunk: string) => {
        said = said.length > mostOutput ? said : said + chunk
      })
      child.on('error', (cause) => reject(broken(cause)))
      child.on('close', (code, killedBy) => {
        if (signal.aborted) reject(signal.reason)
        else if (killedBy !== null) reject(broken(new Error(`tsc was ended by ${killedBy}`)))
        else if (code !== 0 && said === '') reject(broken(new Error(`tsc ended with exit code ${code}`)))
        else resolve(said)
      })
    })
  } finally {
    signal.removeEventListener('abort', kill)
  }
}

function killGroup(pid: number | undefined): void {
  try {
    if (pid !== undefined) process.kill(-pid, 'SIGKILL')
  } catch {
    // It is gone already.
  }
}

function broken(cause: Error): ToolError {
  return new ToolError('RUNTIME_UNAVAILABLE', 'The TypeScript compiler does not run here.', { cause, effect: 'none' })
}
