import { parentPort, workerData } from 'node:worker_threads'
import { createGuestChannel, createOutlet, type Outlet } from '../channel/guest-channel.ts'
import type { ThreadJob, ThreadMessage, ThreadResult } from '../channel/messages.ts'
import { lazily } from '../guest/lazily.ts'
import { warmUp } from '../quickjs/scripts.ts'
import type { ThreadStart } from './thread.ts'

/** The thread that runs scripts and WASI modules, one at a time; the owner kills it when a program does not end. */
const now = performance.now.bind(performance)
const post = (message: ThreadMessage): void => parentPort?.postMessage(message)
/** Any text announces requests, or free space for responses. */
const wake = (): void => parentPort?.postMessage('')
const start: ThreadStart = workerData
const { quickjs } = start
const scripts = lazily(async () => (await import('../quickjs/scripts.ts')).loadScripts(quickjs))
const modules = lazily(() => import('../wasi/run-module.ts'))

async function perform(job: ThreadJob, outlet: Outlet): Promise<ThreadResult> {
  const { program } = job
  if (program.kind === 'code') {
    const line = job.gateway === undefined ? undefined : createGuestChannel(job.gateway, start, wake, now)
    return (await scripts.get()).run({ ...job, program }, outlet, line)
  }
  return (await modules.get()).runModule({ ...job, program }, outlet)
}

async function take(job: ThreadJob): Promise<void> {
  try {
    const outlet = createOutlet(job.limits, post, now)
    const result = await perform(job, outlet)
    post({ kind: 'done', pieces: outlet.rest(), result })
    if (job.program.kind === 'code' && !result.spent) await (await scripts.get()).prepare()
  } catch (error) {
    post({ kind: 'broken', reason: String(error) })
  }
}

async function begin(isAsked: () => boolean): Promise<void> {
  try {
    const loaded = await scripts.get()
    await loaded.prepare()
    post({ kind: 'ready' })
    await warmUp(loaded, now, isAsked)
    post({ kind: 'practised' })
  } catch (error) {
    post({ kind: 'broken', reason: String(error) })
  }
}

/** Runs jobs in order; the next one waits until its context is prepared. */
function serve(): void {
  let asked = false
  let last = begin(() => asked)
  parentPort?.on('message', (job: ThreadJob) => {
    asked = true
    last = last.then(() => take(job))
  })
}

serve()
