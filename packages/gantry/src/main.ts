import { ToolError } from '@gantry/contract'
import { runCommandLine } from './cli/cli.ts'
import { causeOf } from './cli/errors.ts'
import { safeLine } from './cli/terminal.ts'
import { ownExitCode } from './exit-code.ts'
import { processIo } from './process-io.ts'
import { hearStrays } from './stray.ts'

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
  const strays = hearStrays(decideExit)
  const io = processIo(stop, strays.end)
  stopOnSignals(stop, decideExit)
  strays.tell((thrown) => {
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
