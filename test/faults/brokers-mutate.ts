import { existsSync } from 'node:fs'
import { registerHooks } from 'node:module'

/** Loaded before everything else (`--import`): puts broken parts in the place of the sound ones. */
const mutants: { readonly [name: string]: { readonly [sound: string]: string } } = {
  'settled before it is kept': { '/brokers/transports/redis.ts': './brokers-mutant-transport.ts' },
  'answered without an outbox': {
    '/reply/broker-replies.ts': './brokers-mutant-answers.ts',
    '/storage/outbox/outbox.ts': './brokers-mutant-outbox.ts',
  },
  /** No mutant: the worker takes its time to answer, and the outbox is there for when it dies. */
  'answered late': { '/reply/broker-replies.ts': './brokers-mutant-answers.ts' },
}
const chosen = Object.entries(mutants[process.env.FAULT_MUTANT ?? ''] ?? {})

for (const [sound] of chosen) {
  // A sound part that has moved would be left in its place, and the build would not be broken at all.
  if (!existsSync(new URL(`../../packages/service/src${sound}`, import.meta.url)))
    throw new Error(`No ${sound} to break.`)
}

registerHooks({
  resolve(specifier, context, next) {
    const found = next(specifier, context)
    const entry = chosen.find(([sound]) => found.url.endsWith(`/packages/service/src${sound}`))
    const broken = entry === undefined ? undefined : new URL(entry[1], import.meta.url).href
    return broken === undefined || context.parentURL === broken ? found : { ...found, url: broken }
  },
})
