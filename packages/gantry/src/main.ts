import { writeSync } from 'node:fs'
import { ToolError } from '@gantry/contract'
import { runCommandLine } from './cli/cli.ts'
import { causeOf } from './cli/errors.ts'
import { safeLine } from './cli/terminal.ts'
import { processIo } from './process-io.ts'

/** One key press can send two signals, from the terminal and from a parent; a second press comes later than this. */
const samePressMs = 100
/** How long open handles of a tool may delay the exit after the output. */
const lingerMs = 1_000
/** The exit code when the output was lost, whatever the outcome. */
const lostOutput = 1

/** Runs the command in this process. It sets `process.exitCode` without calling `exit`, so that all output is written. */
export async function main(argv: readonly string[]): Promise<void> {
  const stop = new AbortController()
  const decideExit = ownExitCode()
  const uncaught = handleUncaught(decideExit)
  const io = processIo(stop, uncaught.end)
  stopOnSignals(stop, decideExit)
  uncaught.report((thrown) => {
    const { name, message } = causeOf(thrown, 1)
    io.err(`warning: uncaught error outside of a call: ${safeLine(`${name}: ${message}`)}\n`)
  })
  const code = await runCommandLine(argv, io)
  decideExit(io.failed ? lostOutput : code)
  // The timer is unreferenced: a process without open handles exits before it fires.
  setTimeout(() => process.exit(), lingerMs).unref()
}

/** The first signal cancels the call and lets its Result be printed; the second ends the process at once. */
function stopOnSignals(stop: AbortController, decideExit: (code: number) => void): void {
  let first: number | undefined
  const onSignal = (name: string): void => {
    const now = Date.now()
    if (first === undefined) {
      first = now
      stop.abort(new ToolError('CANCELLED', `The process received ${name}.`))
    } else if (now - first > samePressMs) {
      decideExit(130)
      process.exit()
    }
  }
  // On a normal exit Node removes signal handlers first, and a signal after that kills the process.
  process.on('beforeExit', () => process.exit())
  process.on('SIGINT', onSignal)
  process.on('SIGTERM', onSignal)
}

/** Errors thrown outside of every call, by a tool or a configuration that leaves a promise behind. */
interface Uncaught {
  /** Afterwards such an error is reported and the process continues: the command still prints its Result. */
  report(how: (thrown: unknown) => void): void
  /** Afterwards such an error is reported and ends the process: a service must not continue in an unknown state. */
  end(how: (thrown: unknown) => void): void
}

const failed = 1

/** Handles uncaught exceptions and rejections from the start; `decideExit` sets the exit code. */
function handleUncaught(decideExit: (code: number) => void): Uncaught {
  let how = (_thrown: unknown): void => undefined
  let fatal = false
  const handle = (thrown: unknown): void => {
    how(thrown)
    if (!fatal) return
    decideExit(failed)
    process.exit()
  }
  process.on('uncaughtException', handle)
  process.on('unhandledRejection', handle)
  return {
    report(next) {
      how = next
    },
    end(next) {
      how = next
      fatal = true
    },
  }
}

/** The exit code of a command that did not complete. */
const unfinished = 1

/**
 * Controls the exit code: a tool or a configuration that calls `process.exit` ends the process, but not with 0. Returns
 * the function that sets the code once the command is complete.
 */
function ownExitCode(): (code: number) => void {
  let decided: number | undefined
  process.on('exit', () => {
    if (decided === undefined) reportUnfinished()
    process.exitCode = decided ?? unfinished
  })
  return (code) => {
    decided = code
    process.exitCode = code
  }
}

/** Writes directly to the descriptor, because pending stream writes are lost during exit. */
function reportUnfinished(): void {
  try {
    writeSync(
      2,
      'The process ended before the command did, as when a tool or the configuration calls process.exit; ' +
        'what a call has changed until then is not known.\n',
    )
  } catch {
    // There is nowhere left to report it.
  }
}
