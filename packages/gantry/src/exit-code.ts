import { writeSync } from 'node:fs'

/** The command did not get as far as an answer. */
const unfinished = 1

/**
 * Makes the exit code ours: a tool or a configuration that calls `process.exit` ends the process, but not as if all
 * were well. Returns the function that decides the code, once the command is done.
 */
export function ownExitCode(): (code: number) => void {
  let decided: number | undefined
  process.on('exit', () => {
    if (decided === undefined) sayUnfinished()
    process.exitCode = decided ?? unfinished
  })
  return (code) => {
    decided = code
    process.exitCode = code
  }
}

/** Straight to the descriptor, because nothing that waits is waited for any more. */
function sayUnfinished(): void {
  try {
    writeSync(
      2,
      'The process ended before the command did, as when a tool or the configuration calls process.exit; ' +
        'what a call has changed until then is not known.\n',
    )
  } catch {
    // Nobody is left to tell.
  }
}
