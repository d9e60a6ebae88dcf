/**
 * The Node.js that waits inside a sandbox: `node node.mjs javascript|typescript`.
 *
 * Started ahead of its program, it reads one line of JSON from descriptor 3, the job:
 *   code           the program's text
 *   env            the whole environment of the program
 *   argv           what stands behind the program in process.argv; nothing when absent
 *   session        true: keep variables and wait for the next line after this one
 *   deterministic  { seed, nowMs }: random numbers from a seed, and a clock that stands
 *   token          a word for its last line, `{"done":true,"code":n,"token":…}`, right before it ends by itself
 * Code is the body of an async function that has `require`, or an ES module when it imports, exports or names
 * `import.meta`. What it returns, or exports as default, goes to descriptor 3 as `{"value":…}`; the process ends when
 * nothing is left to wait for. In a session `{"done":true,"code":n}` follows each cell.
 *
 * Descriptor 3 stays open: it is the program's own, for lines of progress, logs and values, and children get it where
 * `stdio` passes it on. The host sends nothing after a job until the program has written something.
 */
import { join } from 'node:path'
import { firstJob, send } from './node/channel.mjs'
import { extension, load } from './node/code.mjs'
import { deliver, show } from './node/report.mjs'

/** Without this `process.exit` drops what a slow reader has not taken yet. */
function makeStreamsBlock() {
  for (const stream of [process.stdout, process.stderr]) stream._handle?.setBlocking?.(true)
}

/** Makes the process that of the program: its environment, arguments and, where asked for, its clock and chance. */
async function prepare(job) {
  for (const name of Object.keys(process.env)) delete process.env[name]
  Object.assign(process.env, job.env)
  process.argv.splice(1, Infinity, join(process.cwd(), `main.${extension}`), ...(job.argv ?? []))
  if (job.deterministic === undefined) return
  const { holdStill } = await import('./node/still.mjs')
  holdStill(job.deterministic)
}

/** Runs the only program of this process, which ends when its event loop is empty. */
function runOnce({ code, token }) {
  const main = { running: true }
  const ended = (value) => {
    main.running = false
    deliver(value)
  }
  const failed = (error) => {
    main.running = false
    // Thrown with nothing below it, as at the top of a script, so that listeners of the program hear of it.
    process.nextTick(() => {
      throw error
    })
  }
  process.on('uncaughtException', endByError)
  process.once('beforeExit', () => endByItself(main, token))
  try {
    // The queue of promises calls it, so that no function of ours stands in its stack.
    Promise.resolve()
      .then(load(code, `main.${extension}`))
      .then(ended, failed)
  } catch (error) {
    failed(error)
  }
}

function endByError(error) {
  if (process.listenerCount('uncaughtException') > 1) return
  show(error)
  process.exit(1)
}

function endByItself(main, token) {
  if (main.running) {
    process.stderr.write('Warning: the program awaits something that never comes\n')
    process.exit(13)
  }
  // Last of the listeners, and quicker than taking the engine apart.
  process.once('exit', (code) => {
    if (token !== undefined) sayGoodbye(code, token)
    process.reallyExit(code)
  })
}

/** The host ends the process when it reads this; without a host the process goes on after a moment. */
function sayGoodbye(code, token) {
  send(JSON.stringify({ done: true, code: code & 0xff, token }))
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, patienceMs)
}

const patienceMs = 5

makeStreamsBlock()
const job = firstJob()
if (job !== undefined) {
  await prepare(job)
  if (job.session === true) {
    const { runCells } = await import('./node/cells.mjs')
    runCells(job)
  } else runOnce(job)
}
