import { registerHooks } from 'node:module'

/** Loaded before everything else (`--import`): puts a broken store in the place of the sound one. */
const broken = new URL('./mutant-store.ts', import.meta.url).href

registerHooks({
  resolve(specifier, context, next) {
    const found = next(specifier, context)
    const sound = found.url.endsWith('/packages/service/src/storage/calls/sql.ts')
    return sound && context.parentURL !== broken ? { ...found, url: broken } : found
  },
})
