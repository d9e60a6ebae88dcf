import type { Refusal } from '@gantry/core/internal/runtimes/runtime'
import {
  type Language,
  type Languages,
  type LanguagesFound,
  languagesIn,
  programFolders,
} from '@gantry/sandbox/internal/languages/languages'
import { unavailable } from '../engines/docker-client.ts'
import type { ContainerImage } from '../engines/engine.ts'
import { flavours } from './flavours.ts'
import { defaultImage, imageRepository } from './image-name.ts'

/** Labels of an image that `gantry runtime build` made or completed. */
export const imageLabels = {
  /** The version of the init and its drivers, by digest. */
  parts: 'dev.gantry.parts',
  /** Programs that languages need and the image has, by path. */
  programs: 'dev.gantry.programs',
  node: 'dev.gantry.node',
} as const

/** What an image offers to programs, as its labels say; they were written by the process that looked. */
export interface ImageContents {
  readonly programs: ReadonlySet<string>
  readonly hasNode: boolean
}

/** Throws RUNTIME_UNAVAILABLE for an image without our init, in which no container could start. */
export function imageContents({ digest, labels }: ContainerImage): ImageContents {
  if (labels[imageLabels.parts] === undefined) {
    const reason = `The image ${digest.slice(0, 19)} was not made by \`gantry runtime build\`: it has no init for sandboxes.`
    throw unavailable(reason, `Run \`gantry runtime build\`, or make your image FROM ${defaultImage}.`)
  }
  const programs = (labels[imageLabels.programs] ?? '').split(' ').filter(Boolean)
  return { programs: new Set(programs), hasNode: labels[imageLabels.node] === 'true' }
}

/** The labels of an image that is made from a root file system. */
export function labelsOfSystem(system: {
  readonly digest: string
  readonly programs: readonly string[]
  readonly hasNode: boolean
}): { readonly [name: string]: string } {
  return {
    [imageLabels.parts]: system.digest,
    [imageLabels.programs]: system.programs.join(' '),
    [imageLabels.node]: String(system.hasNode),
  }
}

/** Languages that name no program that they need, because the `process` runtime brings Node along. */
const ofNode: readonly string[] = ['javascript', 'typescript']

/** The languages of an image. One that it lacks is refused with the flavour that has it; `kind` names the setting. */
export function imageLanguages(
  { programs, hasNode }: ImageContents,
  languages: Languages,
  kind: string,
): LanguagesFound {
  const { available, waiting, asking, missing } = languagesIn(languages, (path) => programs.has(path))
  const refusals = new Map<string, Refusal>()
  for (const language of languages.all) {
    const refusal = missing.get(language.name)
    const isWithoutNode = !hasNode && ofNode.includes(language.name)
    const reason = refusal?.reason ?? (isWithoutNode ? 'The image has no Node.' : undefined)
    if (reason !== undefined) refusals.set(language.name, { reason, remedy: remedyFor(language, kind) })
  }
  const without = (names: readonly string[]): string[] => names.filter((name) => !refusals.has(name))
  return { available: without(available), waiting: without(waiting), asking: without(asking), missing: refusals }
}

/** The flavours from the smallest to the largest; those for one language alone would take another one away. */
const offered = flavours.filter(({ name }) => name === 'standard' || name === 'full')

function remedyFor({ name, needs = [] }: Language, kind: string): string {
  const flavour = offered.find((one) => {
    const has = (program: string): boolean =>
      programFolders.some((folder) => one.programs.includes(`${folder}/${program}`))
    return ofNode.includes(name) ? one.node : needs.every(has)
  })
  if (kind === 'proxmox_lxc') {
    const made =
      flavour === undefined ? 'Make a template that has it' : `Run \`gantry runtime template FILE ${flavour.name}\``
    return `${made}, and give the number of its container in \`runtimes.proxmox.template\`.`
  }
  if (flavour === undefined) return `Name an image that has it in \`runtimes.${kind}.image\`.`
  return `Run \`gantry runtime build ${flavour.name}${engineOf(kind)}\`, and name ${imageRepository}:${flavour.name} in \`runtimes.${kind}.image\`.`
}

/** Where another command than that of Docker loads the image. */
function engineOf(kind: string): string {
  if (kind === 'containerd') return ' --engine containerd'
  return kind === 'qemu' || kind === 'firecracker' ? ' --engine qemu' : ''
}
