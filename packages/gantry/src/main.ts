import { writeSync } from 'node:fs'
import { ToolError } from '@gantry/contract'
import { runCommandLine } from './cli/cli.ts'
import { causeOf } from './cli/errors.ts'
import { safeLine } from './cli/terminal.ts'
import { processIo } from './process-io.ts'

/** The same key press can reach us twice, from the terminal and from a parent; a second one comes later. */
const samePressMs = 100
/** How long handles that a tool forgot may keep the process after the answer. */
const lingerMs = 1_000
/** What the command did does not help when its answer is lost. */
const lostOutput = 1

/** The command, wired to this process. The exit code is set, not forced, so that everything printed arrives. */
export async function main(argv: readonly string[]): Promise<void> {
  const stop = new AbortController()
  const decideExit = ownExitCode()
  const uncaught = handleUncaught(decideExit)
  const io = processIo(stop, uncaught.end)
  stopOnSignals(stop, decideExit)
  uncaught.report((thrown) => {
    const { name, message } = causeOf(thrown, 1)
    io.err(`warning: something failed outside of its call: ${safeLine(`${name}: ${message}`)}\n`)
  })
  const code = await runCommandLine(argv, io)
  decideExit(io.failed ? lostOutput : code)
  // A process that is done ends by itself, before the timer.
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
  // When Node ends by itself it takes the handlers down first, and a signal that comes then kills the process.
  process.on('beforeExit', () => process.exit())
  process.on('SIGINT', onSignal)
  process.on('SIGTERM', onSignal)
}

/** What is thrown outside of every call, by a tool or a configuration that leaves a promise behind. */
interface Uncaught {
  /** From now on it is reported, and the process continues: the command still prints its Result. */
  report(how: (thrown: unknown) => void): void
  /** From now on it is reported and ends the process: a service must not continue in an unknown state. */
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

/** The command did not get as far as an answer. */
const unfinished = 1

/**
 * Makes the exit code ours: a tool or a configuration that calls `process.exit` ends the process, but not as if all
 * were well. Returns the function that decides the code, once the command is done.
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

/** Straight to the descriptor, because nothing that waits is waited for any more. */
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
