const form = /^gantry:\/\/artifacts\/([A-Za-z0-9._:-]{1,200})$/

/** Under which address a kept file is a resource. */
export function artifactUri(id: string): string {
  return `gantry://artifacts/${id}`
}

/** The id in such an address, or undefined when it is none. */
export function artifactIdOf(uri: string): string | undefined {
  return form.exec(uri)?.[1]
}
