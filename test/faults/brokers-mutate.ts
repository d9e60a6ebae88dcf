import { existsSync } from 'node:fs'
import { registerHooks } from 'node:module'

/** A module for `--import`: replaces modules by broken ones. */
const mutants: { readonly [name: string]: { readonly [sound: string]: string } } = {
  'settled before it is kept': { '/brokers/transports/redis.ts': './brokers-mutant-transport.ts' },
  'answered without an outbox': {
    '/reply/broker-replies.ts': './brokers-mutant-answers.ts',
    '/storage/outbox/outbox.ts': './brokers-mutant-outbox.ts',
  },
  /** Not broken: replies are late, and the outbox sends them if the worker dies. */
  'answered late': { '/reply/broker-replies.ts': './brokers-mutant-answers.ts' },
}
const chosen = Object.entries(mutants[process.env.FAULT_MUTANT ?? ''] ?? {})

for (const [sound] of chosen) {
  // If the module moved, nothing would be replaced and the build would not be broken.
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
