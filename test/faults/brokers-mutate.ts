import { registerHooks } from 'node:module'

/** Loaded before everything else (`--import`): puts broken parts in the place of the sound ones. */
const mutants: { readonly [name: string]: { readonly [sound: string]: string } } = {
  'settled before it is kept': { '/transports/redis.ts': './brokers-mutant-transport.ts' },
  'answered without an outbox': {
    '/reply/answers.ts': './brokers-mutant-answers.ts',
    '/records/outbox.ts': './brokers-mutant-outbox.ts',
  },
  /** No mutant: the worker takes its time to answer, and the outbox is there for when it dies. */
  'answered late': { '/reply/answers.ts': './brokers-mutant-answers.ts' },
}
const chosen = Object.entries(mutants[process.env.FAULT_MUTANT ?? ''] ?? {})

registerHooks({
  resolve(specifier, context, next) {
    const found = next(specifier, context)
    const entry = chosen.find(([sound]) => found.url.endsWith(`/packages/service/src${sound}`))
    const broken = entry === undefined ? undefined : new URL(entry[1], import.meta.url).href
    return broken === undefined || context.parentURL === broken ? found : { ...found, url: broken }
  },
})
