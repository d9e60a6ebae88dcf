import { type AsyncHook, createHook } from 'node:async_hooks'

/**
 * Keeps the test runner from tracking promises. It does so to name the test that an uncaught failure belongs to, and it
 * makes asynchronous code up to four times slower. Without it such a failure is reported for the file, which fails too.
 * A Node whose hooks cannot leave promises untracked is left as it is.
 */
export function leavePromisesUntracked(): void {
  const sample = createHook({ trackPromises: false })
  const mark = Object.getOwnPropertySymbols(sample).find((name) => Reflect.get(sample, name) === true)
  if (mark === undefined) return
  const hooks: AsyncHook = Object.getPrototypeOf(sample)
  const { enable } = hooks
  // The first hook that is enabled after the start is the runner's; all others stay as they are.
  hooks.enable = function enableRunner(this: AsyncHook): AsyncHook {
    hooks.enable = enable
    return enable.call(Object.assign(this, { [mark]: true }))
  }
}
