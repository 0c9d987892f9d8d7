// Shared memory that the steps of a shader use in turn.
#ifndef WORKSPACE_GLSL
#define WORKSPACE_GLSL

#define WORKSPACE 1024
#define NO_ROW 0xffffffffu
shared uint workspace[WORKSPACE];

#endif
