import { resolve } from 'node:path'
import { loadConfig } from '@gantry/service/internal/config/load'
import { unknownName, usageError } from '../errors.ts'
import type { Command } from '../io.ts'
import { createProgress, printJson } from '../print.ts'
import { safeLine } from '../terminal.ts'

/** Writes the archive of a template for Proxmox VE, with the key that the configuration names. */
export const writeTemplate: Command = async ({ operands, options }, io) => {
  const [path = '', name = 'standard'] = operands
  const { templateFlavours, writeTemplateArchive } = await import(
    '@gantry/sandbox-proxmox/internal/templates/template-archive'
  )
  const flavour = templateFlavours.find((one) => one.name === name)
  if (flavour === undefined) {
    const names = templateFlavours.map((one) => one.name)
    throw await unknownName(
      'flavour',
      `${name} is no flavour of a template; there are ${names.join(', ')}.`,
      name,
      names,
    )
  }
  const { environment, folder, signal } = io
  const { options: loaded, warnings } = await loadConfig({
    environment,
    folder,
    signal,
    ...(options.config === undefined ? {} : { file: options.config }),
  })
  for (const warning of warnings) io.err(`warning: ${safeLine(warning)}\n`)
  const { agentKeyOf, hasProxmox } = await import('@gantry/sandbox-proxmox/internal/settings')
  if (!hasProxmox(loaded.runtimes)) {
    throw usageError(
      '/runtimes/proxmox',
      'The configuration needs runtimes.proxmox, because the template gets its agentKey.',
    )
  }
  const key = await agentKeyOf(loaded.runtimes.proxmox, loaded.secrets)
  const file = resolve(folder, path)
  const progress = createProgress(io, options)
  const onProgress = (step: string): void => {
    if (io.watched) progress.show(step)
    else if (options.quiet !== true && !step.startsWith('unpacking')) io.err(`${safeLine(step)}\n`)
  }
  await writeTemplateArchive({ flavour, key, file, signal, onProgress }).finally(progress.clear)
  if (options.json === true) await printJson({ flavour: name, file }, io)
  else await io.out(`${safeLine(file)}\n`)
  return 0
}
