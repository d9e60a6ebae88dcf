/** What to do about an image that an engine does not have. */
export function absentImageRemedy(name: string, kind: 'docker' | 'containerd'): string {
  const flag = kind === 'containerd' ? ' --engine containerd' : ''
  const [, tag] = /^gantry\/sandbox:(python|node|standard|full)(?:-[0-9a-f]{12})?$/.exec(name) ?? []
  if (tag !== undefined) return `Run \`gantry runtime build${tag === 'standard' ? '' : ` ${tag}`}${flag}\`.`
  return `Load it into the engine, or name another one in \`runtimes.${kind}.image\`; \`gantry runtime images${flag}\` lists those that can be used.`
}
