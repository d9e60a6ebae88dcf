import { existsSync } from 'node:fs'
import { registerHooks } from 'node:module'

/** A module for `--import`: replaces the call store by a broken one. */
const broken = new URL('./mutant-store.ts', import.meta.url).href

const soundPath = '/packages/service/src/storage/calls/sql.ts'
// If the module moved, nothing would be replaced and the build would not be broken.
if (!existsSync(new URL(`../..${soundPath}`, import.meta.url))) throw new Error(`No ${soundPath} to break.`)

registerHooks({
  resolve(specifier, context, next) {
    const found = next(specifier, context)
    const sound = found.url.endsWith(soundPath)
    return sound && context.parentURL !== broken ? { ...found, url: broken } : found
  },
})
