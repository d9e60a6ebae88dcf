import { existsSync } from 'node:fs'
import { registerHooks } from 'node:module'

/** Loaded before everything else (`--import`): puts a broken store in the place of the sound one. */
const broken = new URL('./mutant-store.ts', import.meta.url).href

const soundPath = '/packages/service/src/storage/calls/sql.ts'
// A sound store that has moved would be left in its place, and the build would not be broken at all.
if (!existsSync(new URL(`../..${soundPath}`, import.meta.url))) throw new Error(`No ${soundPath} to break.`)

registerHooks({
  resolve(specifier, context, next) {
    const found = next(specifier, context)
    const sound = found.url.endsWith(soundPath)
    return sound && context.parentURL !== broken ? { ...found, url: broken } : found
  },
})
