import { Worker } from 'node:worker_threads'
import variant from '@jitl/quickjs-ng-wasmfile-release-sync'
import { newQuickJSWASMModuleFromVariant, type QuickJSSyncVariant } from 'quickjs-emscripten-core'

/** A text to another thread and back, repeatedly: the minimum cost of a call across threads with Node's own means. */
export async function threadEcho(): Promise<{ run(count: number): Promise<void>; close(): Promise<unknown> }> {
  const code = `const { parentPort } = require('node:worker_threads')
    parentPort.on('message', (text) => parentPort.postMessage(text))`
  const worker = new Worker(code, { eval: true })
  let received: () => void = () => undefined
  worker.on('message', () => received())
  const echo = (): Promise<void> =>
    new Promise((resolve) => {
      received = resolve
      worker.postMessage('{"tool":"math:add","args":{"a":1,"b":2}}')
    })
  await echo()
  return {
    async run(count) {
      for (let n = 0; n < count; n += 1) await echo()
    },
    close: () => worker.terminate(),
  }
}

/** A loop of awaited calls of a host function in QuickJS in this thread: no tool, no pipeline, no limits, no other thread. */
export async function bareQuickjs(): Promise<(count: number) => void> {
  const quickjs = await newQuickJSWASMModuleFromVariant(variant as unknown as QuickJSSyncVariant)
  return (count) => {
    const context = quickjs.newContext()
    const add = context.newFunction('add', (said) => {
      const { a, b } = JSON.parse(context.getString(said)) as { a: number; b: number }
      return context.newString(JSON.stringify({ result: a + b }))
    })
    context.setProp(context.global, 'add', add)
    add.dispose()
    const code = `(async () => { for (let i = 0; i < ${count}; i++) await JSON.parse(add(JSON.stringify({ a: i, b: 2 }))) })()`
    context.unwrapResult(context.evalCode(code)).dispose()
    context.runtime.executePendingJobs()
    context.dispose()
  }
}
